"""What a provider says and understands: requests, stream pieces and whole answers, free of any HTTP library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Prompt:
    """One thing to ask. ``messages`` in the chat form (role, content); ``tools`` as the provider expects them."""

    messages: tuple[Mapping[str, str], ...]
    tools: tuple[Mapping[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """All contents, joined; what a completions endpoint gets."""
        return "\n".join(m["content"] for m in self.messages)

    @property
    def estimated_tokens(self) -> int:
        """About four bytes a token plus the frame of each message; for the plan shown before sending."""
        return sum(len(m["content"].encode()) // 4 + 5 for m in self.messages)

    @property
    def most_tokens(self) -> int:
        """An upper bound: no tokenizer makes more tokens than bytes. Caps reserve this much until the usage is known."""
        size = sum(len(m["content"].encode()) + 16 for m in self.messages)
        return size + sum(len(str(tool)) for tool in self.tools)


@dataclass(frozen=True, slots=True)
class Ask:
    """Everything that goes into one attempt's request."""

    url: str
    model: str
    prompt: Prompt
    stream: bool
    answer_tokens: int  # limit of the answer
    attempt_id: str
    key: str | None = field(default=None, repr=False)
    engine_id: bool = False  # send the attempt's id in the body, where the engine (SGLang) aborts by it


@dataclass(frozen=True, slots=True)
class WireRequest:
    """An HTTP request ready to send. ``headers`` hold the key: never printed."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as billed; ``prompt`` includes ``cached``, ``completion`` includes ``reasoning``. None = not said."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None

    def merged(self, later: Usage) -> Usage:
        """Later values win where they are given."""
        return Usage(
            later.prompt if later.prompt is not None else self.prompt,
            later.completion if later.completion is not None else self.completion,
            later.cached if later.cached is not None else self.cached,
            later.reasoning if later.reasoning is not None else self.reasoning,
        )


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Piece:
    """One event of a stream, or a whole answer.

    ``text`` is visible content, ``reasoning`` hidden thought, ``tool`` a part of a tool call: each counts as a token,
    only ``text`` is content. A role, a ping or an empty delta has none of them and counts as nothing.
    """

    text: str = ""
    reasoning: bool = False
    tool: bool = False
    finished: bool = False  # the answer is whole
    last: bool = False  # nothing follows: stop reading
    error: str | None = None  # short kind, never the provider's words
    usage: Usage | None = None

    @property
    def token(self) -> bool:
        """Whether the piece carries at least one output token."""
        return bool(self.text) or self.reasoning or self.tool


NOTHING = Piece()
END = Piece(finished=True, last=True)


class Decoder(Protocol):
    """Bytes in, payloads out."""

    def feed(self, chunk: bytes) -> list[str]: ...

    def finish(self) -> list[str]: ...


class Provider(Protocol):
    """One API dialect. Pure: no clock, no I/O."""

    @property
    def name(self) -> str: ...

    def matches(self, url: str) -> bool:
        """Whether the URL names this API."""
        ...

    def resolve(self, url: str) -> str:
        """The endpoint to post to, from a base URL or an endpoint."""
        ...

    def models_url(self, url: str) -> str | None:
        """Where the models are listed; None if the API has no such page."""
        ...

    def request(self, ask: Ask) -> WireRequest: ...

    def decoder(self) -> Decoder: ...

    def piece(self, payload: str) -> Piece:
        """Reads one payload of a stream. Raises ValueError if it is no JSON object."""
        ...

    def whole(self, body: bytes) -> Piece:
        """Reads a whole answer. Raises ValueError if it cannot."""
        ...
