"""OpenAI-compatible completions (``POST /v1/completions``): a prompt in, text out."""

from __future__ import annotations

from hedgectl.probe.providers import _shape, openai
from hedgectl.probe.sse import SseDecoder
from hedgectl.probe.wire import END, Ask, Decoder, Piece, WireRequest


class OpenAICompletions:
    """The older endpoint, still what engines are benchmarked with."""

    name = "openai-completions"
    _endpoint = "/completions"

    def matches(self, url: str) -> bool:
        path = _shape.path_of(url)
        return path.endswith(self._endpoint) and not path.endswith("/chat/completions")

    def resolve(self, url: str) -> str:
        return openai.resolve(url, self._endpoint)

    def models_url(self, url: str) -> str | None:
        return openai.models_url(self.resolve(url), self._endpoint)

    def request(self, ask: Ask) -> WireRequest:
        body = {"model": ask.model, "prompt": ask.prompt.text, **openai.limits(ask)}
        return WireRequest("POST", ask.url, openai.headers(ask), _shape.encode(body))

    def decoder(self) -> Decoder:
        return SseDecoder()

    def piece(self, payload: str) -> Piece:
        return END if payload == "[DONE]" else self.whole(payload.encode())

    def whole(self, body: bytes) -> Piece:
        answer = _shape.parse(body)
        if answer.get("error"):
            return Piece(error="upstream")
        choice = _shape.first(answer.get("choices"))
        text = choice.get("text")
        return Piece(
            text=text if isinstance(text, str) else "",
            finished=choice.get("finish_reason") is not None,
            usage=openai.usage_of(answer),
        )


PROVIDER = OpenAICompletions()
