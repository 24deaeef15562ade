"""Anthropic messages (``POST /v1/messages``): typed events; cached prompt tokens stand beside the input tokens."""

from __future__ import annotations

from typing import Any

from hedgectl.probe.providers import _shape
from hedgectl.probe.sse import SseDecoder
from hedgectl.probe.wire import END, NOTHING, Ask, Decoder, Piece, Usage, WireRequest

_VERSION = "2023-06-01"


def _usage(raw: Any) -> Usage | None:
    usage = _shape.table(raw)
    if not usage:
        return None
    cached = _shape.count(usage.get("cache_read_input_tokens"))
    prompt = _shape.count(usage.get("input_tokens"))
    if prompt is not None:
        prompt = _shape.total(prompt, cached, _shape.count(usage.get("cache_creation_input_tokens")))
    return Usage(prompt, _shape.count(usage.get("output_tokens")), cached)


class Anthropic:
    """Messages API; a system message of the prompt becomes the ``system`` field."""

    name = "anthropic"

    def matches(self, url: str) -> bool:
        return _shape.path_of(url).endswith("/messages")

    def resolve(self, url: str) -> str:
        path = _shape.path_of(url)
        if not path.endswith("/messages"):
            path = (path if path.endswith("/v1") else path + "/v1") + "/messages"
        return _shape.with_path(url, path)

    def models_url(self, url: str) -> str | None:
        return _shape.with_path(url, _shape.path_of(self.resolve(url)).removesuffix("/messages") + "/models", "")

    def request(self, ask: Ask) -> WireRequest:
        system = "\n".join(m["content"] for m in ask.prompt.messages if m["role"] == "system")
        body: dict[str, Any] = {
            "model": ask.model,
            "max_tokens": ask.answer_tokens,
            "messages": [m for m in ask.prompt.messages if m["role"] != "system"],
            "stream": ask.stream,
        }
        if system:
            body["system"] = system
        if ask.prompt.tools:
            body["tools"] = list(ask.prompt.tools)
        headers = [
            ("content-type", "application/json"),
            ("anthropic-version", _VERSION),
            ("x-request-id", ask.attempt_id),
        ]
        if ask.key is not None:
            headers.append(("x-api-key", ask.key))
        return WireRequest("POST", ask.url, tuple(headers), _shape.encode(body))

    def decoder(self) -> Decoder:
        return SseDecoder()

    def piece(self, payload: str) -> Piece:
        event = _shape.parse(payload)
        match event.get("type"):
            case "content_block_delta":
                delta = _shape.table(event.get("delta"))
                return Piece(
                    text=delta.get("text") or "" if delta.get("type") == "text_delta" else "",
                    reasoning=bool(delta.get("thinking")),
                    tool=bool(delta.get("partial_json")),
                )
            case "message_start":
                usage = _usage(_shape.table(event.get("message")).get("usage"))
                # output_tokens of the first event is a placeholder, the real count comes with message_delta
                return Piece(usage=Usage(usage.prompt, None, usage.cached)) if usage else NOTHING
            case "message_delta":
                usage = _usage(event.get("usage"))
                # its input_tokens may lack the cached ones that message_start had
                return Piece(usage=Usage(completion=usage.completion)) if usage else NOTHING
            case "message_stop":
                return END
            case "error":
                return Piece(error="overloaded" if "overloaded" in str(event.get("error")) else "upstream")
            case _:
                return NOTHING

    def whole(self, body: bytes) -> Piece:
        answer = _shape.parse(body)
        if answer.get("type") == "error" or answer.get("error"):
            return Piece(error="upstream")
        blocks = [_shape.table(b) for b in answer.get("content") or []]
        return Piece(
            text="".join(str(b.get("text", "")) for b in blocks if b.get("type") == "text"),
            reasoning=any(b.get("type") == "thinking" for b in blocks),
            tool=any(b.get("type") == "tool_use" for b in blocks),
            finished=True,
            usage=_usage(answer.get("usage")),
        )


PROVIDER = Anthropic()
