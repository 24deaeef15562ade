"""OpenAI-compatible chat completions: OpenAI, vLLM, SGLang, TensorRT-LLM, llama.cpp and most gateways."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from hedgectl.probe.providers import _shape
from hedgectl.probe.sse import SseDecoder
from hedgectl.probe.wire import END, NOTHING, Ask, Decoder, Piece, Usage, WireRequest

_HOSTED = "api.openai.com"


def usage_of(answer: dict[str, Any]) -> Usage | None:
    """The ``usage`` object; prompt_tokens already include the cached ones."""
    usage = _shape.table(answer.get("usage"))
    if not usage:
        return None
    return Usage(
        _shape.count(usage.get("prompt_tokens")),
        _shape.count(usage.get("completion_tokens")),
        _shape.count(_shape.table(usage.get("prompt_tokens_details")).get("cached_tokens")),
        _shape.count(_shape.table(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def headers(ask: Ask) -> tuple[tuple[str, str], ...]:
    """Bearer key, if any, and the attempt's id under the name that engines and gateways log."""
    fixed = (
        ("content-type", "application/json"),
        ("accept", "text/event-stream" if ask.stream else "application/json"),
        ("x-request-id", ask.attempt_id),
    )
    return fixed if ask.key is None else (*fixed, ("authorization", f"Bearer {ask.key}"))


def limits(ask: Ask) -> dict[str, Any]:
    """Limit of the answer, streaming with usage, and the id that an engine aborts by."""
    # The hosted API refuses max_tokens for its reasoning models; engines know only max_tokens.
    name = "max_completion_tokens" if urlsplit(ask.url).hostname == _HOSTED else "max_tokens"
    body: dict[str, Any] = {name: ask.answer_tokens, "stream": ask.stream}
    if ask.stream:
        body["stream_options"] = {"include_usage": True}
    if ask.engine_id:
        body["rid"] = ask.attempt_id
    return body


def models_url(url: str, endpoint: str) -> str:
    """``…/models`` beside the endpoint."""
    return _shape.with_path(url, _shape.path_of(url).removesuffix(endpoint) + "/models", "")


def resolve(url: str, endpoint: str) -> str:
    """The endpoint itself, or a base URL with or without ``/v1``."""
    path = _shape.path_of(url)
    if path.endswith(endpoint):
        return _shape.with_path(url, path)
    if not path.endswith("/v1"):
        path += "/v1"
    return _shape.with_path(url, path + endpoint)


class OpenAIChat:
    """``POST /v1/chat/completions``."""

    name = "openai"
    _endpoint = "/chat/completions"

    def matches(self, url: str) -> bool:
        return _shape.path_of(url).endswith(self._endpoint)

    def resolve(self, url: str) -> str:
        return resolve(url, self._endpoint)

    def models_url(self, url: str) -> str | None:
        return models_url(self.resolve(url), self._endpoint)

    def request(self, ask: Ask) -> WireRequest:
        body: dict[str, Any] = {"model": ask.model, "messages": list(ask.prompt.messages), **limits(ask)}
        if ask.prompt.tools:
            body["tools"] = list(ask.prompt.tools)
        return WireRequest("POST", ask.url, headers(ask), _shape.encode(body))

    def decoder(self) -> Decoder:
        return SseDecoder()

    def piece(self, payload: str) -> Piece:
        if payload == "[DONE]":
            return END
        event = _shape.parse(payload)
        if event.get("error"):
            return Piece(error="upstream")
        choice = _shape.first(event.get("choices"))
        return self._choice(choice, _shape.table(choice.get("delta")), usage_of(event))

    def whole(self, body: bytes) -> Piece:
        answer = _shape.parse(body)
        if answer.get("error"):
            return Piece(error="upstream")
        choice = _shape.first(answer.get("choices"))
        return self._choice(choice, _shape.table(choice.get("message")), usage_of(answer))

    @staticmethod
    def _choice(choice: dict[str, Any], delta: dict[str, Any], usage: Usage | None) -> Piece:
        text = delta.get("content")
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        tool = bool(delta.get("tool_calls"))
        finished = choice.get("finish_reason") is not None
        if not (text or thought or tool or finished or usage):
            return NOTHING
        return Piece(
            text=text if isinstance(text, str) else "",
            reasoning=bool(thought),
            tool=tool,
            finished=finished,
            usage=usage,
        )


PROVIDER = OpenAIChat()
