"""Gemini ``generateContent`` and ``streamGenerateContent`` (Gemini API and Vertex AI)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from hedgectl.errors import UsageError
from hedgectl.probe.providers import _shape
from hedgectl.probe.sse import SseDecoder
from hedgectl.probe.wire import Ask, Decoder, Piece, Usage, WireRequest

_METHOD = re.compile(r":(?:stream)?[gG]enerateContent$")


def _usage(raw: Any) -> Usage | None:
    usage = _shape.table(raw)
    if not usage:
        return None
    thoughts = _shape.count(usage.get("thoughtsTokenCount"))
    answer = _shape.count(usage.get("candidatesTokenCount"))
    # Thoughts are billed as output and stand beside the candidates' tokens, not inside them.
    completion = _shape.total(answer, thoughts)
    return Usage(
        _shape.count(usage.get("promptTokenCount")),
        completion,
        _shape.count(usage.get("cachedContentTokenCount")),
        thoughts,
    )


class Gemini:
    """The model stands in the URL; the method follows ``stream``. Streams are asked for as SSE (``alt=sse``)."""

    name = "gemini"

    def matches(self, url: str) -> bool:
        host = urlsplit(url).hostname or ""
        return bool(_METHOD.search(_shape.path_of(url))) or host == "generativelanguage.googleapis.com"

    def resolve(self, url: str) -> str:
        path = _METHOD.sub("", _shape.path_of(url))
        if "/models" not in path:
            path = (path or "/v1beta") + "/models"
        return _shape.with_path(url, path)

    def models_url(self, url: str) -> str | None:
        path = self.resolve(url)
        return _shape.with_path(path, _shape.path_of(path).split("/models")[0] + "/models", "")

    def request(self, ask: Ask) -> WireRequest:
        path = _shape.path_of(ask.url)
        if path.endswith("/models"):
            if not ask.model:
                raise UsageError("Gemini needs a model", hint="give --model")
            path += "/" + ask.model.removeprefix("models/")
        url = _shape.with_path(
            ask.url,
            path + (":streamGenerateContent" if ask.stream else ":generateContent"),
            "alt=sse" if ask.stream else "",
        )
        contents = [
            {"role": "model" if m["role"] == "assistant" else "user", "parts": [{"text": m["content"]}]}
            for m in ask.prompt.messages
            if m["role"] != "system"
        ]
        body: dict[str, Any] = {"contents": contents, "generationConfig": {"maxOutputTokens": ask.answer_tokens}}
        system = [{"text": m["content"]} for m in ask.prompt.messages if m["role"] == "system"]
        if system:
            body["systemInstruction"] = {"parts": system}
        if ask.prompt.tools:
            body["tools"] = list(ask.prompt.tools)
        headers = [("content-type", "application/json"), ("x-request-id", ask.attempt_id)]
        if ask.key is not None:
            headers.append(("x-goog-api-key", ask.key))
        return WireRequest("POST", url, tuple(headers), _shape.encode(body))

    def decoder(self) -> Decoder:
        return SseDecoder()

    def piece(self, payload: str) -> Piece:
        return self._read(_shape.parse(payload))

    def whole(self, body: bytes) -> Piece:
        return self._read(_shape.parse(body))

    @staticmethod
    def _read(event: dict[str, Any]) -> Piece:
        if event.get("error"):
            return Piece(error="upstream")
        candidate = _shape.first(event.get("candidates"))
        parts = [_shape.table(p) for p in _shape.table(candidate.get("content")).get("parts") or []]
        blocked = _shape.table(event.get("promptFeedback")).get("blockReason")
        return Piece(
            text="".join(str(p.get("text") or "") for p in parts if not p.get("thought")),
            reasoning=any(p.get("thought") and p.get("text") for p in parts),
            tool=any("functionCall" in p for p in parts),
            finished=candidate.get("finishReason") is not None,
            error="blocked" if blocked else None,
            usage=_usage(event.get("usageMetadata")),
        )


PROVIDER = Gemini()
