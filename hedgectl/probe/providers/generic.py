"""Any other HTTP endpoint, described in a TOML template: a body to send and the paths to read."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgectl.errors import UsageError
from hedgectl.probe.providers import _shape
from hedgectl.probe.sse import LineDecoder, SseDecoder
from hedgectl.probe.wire import END, Ask, Decoder, Piece, Usage, WireRequest

_SLOT = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_SLOTS = ("prompt", "messages", "model", "max_tokens", "stream", "attempt_id")
_KEYS = {
    "path": str,
    "method": str,
    "body": str,
    "headers": dict,
    "key_header": str,
    "key_prefix": str,
    "stream": str,
    "text": str,
    "whole_text": str,
    "done": str,
    "finished": str,
    "error": str,
    "prompt_tokens": str,
    "completion_tokens": str,
}
_HINT = "the template needs body and text; see the probe chapter of the README"


def _at(value: Any, path: str) -> Any:
    """The value at ``a.b.0.c``; None where the path leads nowhere."""
    for step in path.split(".") if path else ():
        if isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            return None
    return value


@dataclass(frozen=True, slots=True)
class Generic:
    """A template as a provider.

    ``{{prompt}}``, ``{{messages}}``, ``{{model}}``, ``{{max_tokens}}``, ``{{stream}}`` and ``{{attempt_id}}`` stand for
    JSON values. ``text`` (and ``whole_text`` for answers that are not streamed) are paths such as ``choices.0.text``;
    ``done`` is the payload that ends a stream, ``finished`` a path whose non-null value does.
    """

    name = "generic"
    path: str
    method: str
    body: str
    headers: tuple[tuple[str, str], ...]
    key_header: str
    key_prefix: str
    framing: str  # sse | lines
    text: str
    whole_text: str
    done: str
    finished: str
    error: str
    prompt_tokens: str
    completion_tokens: str

    def matches(self, url: str) -> bool:
        return False

    def resolve(self, url: str) -> str:
        return _shape.with_path(url, _shape.path_of(url) + self.path) if self.path else url

    def models_url(self, url: str) -> str | None:
        return None

    def request(self, ask: Ask) -> WireRequest:
        values: dict[str, Any] = {
            "prompt": ask.prompt.text,
            "messages": list(ask.prompt.messages),
            "model": ask.model,
            "max_tokens": ask.answer_tokens,
            "stream": ask.stream,
            "attempt_id": ask.attempt_id,
        }
        body = _SLOT.sub(lambda slot: json.dumps(values[slot[1]], ensure_ascii=False), self.body)
        headers = [("content-type", "application/json"), ("x-request-id", ask.attempt_id), *self.headers]
        if ask.key is not None:
            headers.append((self.key_header, self.key_prefix + ask.key))
        return WireRequest(self.method, ask.url, tuple(headers), body.encode())

    def decoder(self) -> Decoder:
        return LineDecoder() if self.framing == "lines" else SseDecoder()

    def piece(self, payload: str) -> Piece:
        if self.done and payload == self.done:
            return END
        return self._read(json.loads(payload), self.text)

    def whole(self, body: bytes) -> Piece:
        return self._read(json.loads(body), self.whole_text)

    def _read(self, value: Any, path: str) -> Piece:
        text = _at(value, path)
        prompt, completion = (
            _shape.count(_at(value, self.prompt_tokens)),
            _shape.count(_at(value, self.completion_tokens)),
        )
        return Piece(
            text=text if isinstance(text, str) else "",
            finished=bool(self.finished) and _at(value, self.finished) is not None,
            error="upstream" if self.error and _at(value, self.error) else None,
            usage=Usage(prompt, completion) if prompt is not None or completion is not None else None,
        )


def load(path: Path) -> Generic:
    """Reads a template. Raises UsageError, naming the key, for what is missing, unknown or not JSON once filled."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the template: {error.strerror}", where=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the template is not TOML: {error}", where=str(path)) from error
    for key, value in raw.items():
        if key not in _KEYS:
            raise UsageError(f"unknown key {key} in the template", where=str(path), hint=f"known: {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise UsageError(f"{key} in the template is not a {_KEYS[key].__name__}", where=str(path))
    for key in ("body", "text"):
        if not raw.get(key):
            raise UsageError(f"the template has no {key}", where=str(path), hint=_HINT)
    unknown = [slot for slot in _SLOT.findall(raw["body"]) if slot not in _SLOTS]
    if unknown:
        raise UsageError(
            f"unknown slot {{{{{unknown[0]}}}}} in the template's body",
            where=str(path),
            hint=f"known: {', '.join(_SLOTS)}; a slot stands for a whole JSON value, without quotes around it",
        )
    try:
        json.loads(_SLOT.sub("0", raw["body"]))
    except json.JSONDecodeError as error:
        raise UsageError(
            f"the template's body is not JSON once its slots are filled: {error}",
            where=str(path),
            hint="write slots without quotes around them",
        ) from error
    framing = raw.get("stream", "sse")
    if framing not in ("sse", "lines"):
        raise UsageError(f"stream = {framing!r} in the template", where=str(path), hint="sse or lines")
    return Generic(
        path=raw.get("path", ""),
        method=raw.get("method", "POST"),
        body=raw["body"],
        headers=tuple((str(k).lower(), str(v)) for k, v in raw.get("headers", {}).items()),
        key_header=raw.get("key_header", "authorization"),
        key_prefix=raw.get("key_prefix", "" if "key_header" in raw else "Bearer "),
        framing=framing,
        text=raw["text"],
        whole_text=raw.get("whole_text", raw["text"]),
        done=raw.get("done", ""),
        finished=raw.get("finished", ""),
        error=raw.get("error", ""),
        prompt_tokens=raw.get("prompt_tokens", ""),
        completion_tokens=raw.get("completion_tokens", ""),
    )
