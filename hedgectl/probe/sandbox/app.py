"""The sandbox's API: chat and completions, streamed or whole, the list of models, metrics under vLLM's names, aborts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hedgectl.probe.sandbox.engine import Engine, Job, Law
from hedgectl.probe.sandbox.http import Reply, Request, Server

MODEL = "sandbox"
_WORDS = [
    "a",
    "small",
    "river",
    "runs",
    "past",
    "the",
    "old",
    "mill",
    "and",
    "under",
    "the",
    "bridge",
    "where",
    "boats",
    "wait",
    "for",
    "the",
    "evening",
    "tide",
]
_NORMAL = statistics.NormalDist()


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What the sandbox imitates."""

    replicas: int = 3
    slow: int = 1  # the last ones
    slow_factor: float = 5.0
    law: Law = field(default_factory=Law)
    routing: str = "random"  # random | least_outstanding
    frees: bool = True  # a client that leaves frees the engine; else it runs on
    answer_tokens: float = 40.0  # median of the answers
    answer_sigma: float = 0.5  # of their logarithm
    copies_same: bool = True  # a copy's answer is as long as its primary's
    seed: int = 1


class Sandbox:
    """A gateway with its replicas. ``start``, use ``url``, ``close``."""

    def __init__(self, settings: SandboxSettings) -> None:
        self.settings = settings
        slow_from = settings.replicas - settings.slow
        self.engines = [
            Engine(settings.law, settings.slow_factor if i >= slow_from else 1.0) for i in range(settings.replicas)
        ]
        self._server = Server(self._handle)
        self._random = random.Random(f"{settings.seed}:routing")
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: dict[str, tuple[Engine, Job]] = {}
        self._routed: dict[str, int] = {}  # replica of each request, for copies to avoid
        self.url = ""
        self.requests = 0

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listens; returns the base URL. Raises OSError."""
        bound = await self._server.start(host, port)
        self._tasks = [asyncio.create_task(engine.run()) for engine in self.engines]
        self.url = f"http://{host}:{bound}"
        return self.url

    async def close(self) -> None:
        """Stops everything."""
        await self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        return self._server.connections

    async def _handle(self, request: Request, reply: Reply) -> None:
        path = request.path.split("?", 1)[0]
        forced: int | None = None
        parts = path.split("/", 2)
        if len(parts) == 3 and parts[1][:1] == "r" and parts[1][1:].isdigit():
            # /r1/v1/...: one replica, as if it were reached without the gateway
            forced, path = int(parts[1][1:]), "/" + parts[2]
            if forced >= len(self.engines):
                return reply.whole(404, b'{"error":"no such replica"}')
        if request.method == "GET":
            return self._page(path, forced, reply)
        if request.method != "POST":
            return reply.whole(405, b'{"error":"method not allowed"}')
        try:
            body = json.loads(request.body)
            if not isinstance(body, dict):
                raise ValueError
        except ValueError:
            return reply.whole(400, b'{"error":"the body is not a JSON object"}')
        if path == "/abort_requests":
            return self._abort(body, reply)
        if path == "/v1/chat/completions":
            return await self._generate(request, body, _chat_text(body), "chatcmpl", forced, reply)
        if path == "/v1/completions":
            return await self._generate(request, body, str(body.get("prompt", "")), "cmpl", forced, reply)
        return reply.whole(404, b'{"error":"not found"}')

    def _page(self, path: str, forced: int | None, reply: Reply) -> None:
        if path == "/v1/models":
            listed = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "hedgectl"}]}
            reply.whole(200, json.dumps(listed).encode())
        elif path == "/metrics":
            reply.whole(200, self.metrics(forced).encode(), "text/plain; version=0.0.4")
        elif path in ("/health", "/"):
            reply.whole(200, b"{}")
        else:
            reply.whole(404, b'{"error":"not found"}')

    def metrics(self, only: int | None = None) -> str:
        """The engines' state as a Prometheus page."""
        law = self.settings.law
        rows: tuple[tuple[str, str, Callable[[Engine], float]], ...] = (
            ("num_requests_running", "gauge", lambda e: e.running),
            ("num_requests_waiting", "gauge", lambda e: e.waiting),
            ("kv_cache_usage_perc", "gauge", lambda e: e.kv_usage),
            ("prompt_tokens_total", "counter", lambda e: e.prompt_tokens),
            ("generation_tokens_total", "counter", lambda e: e.generated_tokens),
            ("request_success_total", "counter", lambda e: e.finished),
        )
        lines = []
        for name, kind, value in rows:
            lines.append(f"# TYPE vllm:{name} {kind}")
            for i, engine in enumerate(self.engines):
                if only in (None, i):
                    lines.append(f'vllm:{name}{{engine="{i}",model_name="{MODEL}"}} {value(engine):.6g}')
        lines.append("# TYPE vllm:cache_config_info gauge")
        blocks = law.kv_capacity_tokens // 16
        lines += [
            f'vllm:cache_config_info{{block_size="16",engine="{i}",num_gpu_blocks="{blocks}"}} 1'
            for i in range(len(self.engines))
            if only in (None, i)
        ]
        return "\n".join(lines) + "\n"

    def _abort(self, body: dict[str, Any], reply: Reply) -> None:
        for name in body.get("request_ids") or list(self._jobs):
            found = self._jobs.get(str(name))
            if found is not None:
                found[0].abort(found[1])
                self._jobs.pop(str(name), None)
        reply.whole(200, b"{}")

    def _route(self, request_id: str, copy_of: str | None, forced: int | None) -> int:
        if forced is not None:
            return forced
        allowed = list(range(len(self.engines)))
        used = self._routed.get(copy_of) if copy_of else None
        if used is not None and len(allowed) > 1:
            allowed.remove(used)
        if self.settings.routing == "least_outstanding":
            least = min(self.engines[i].outstanding for i in allowed)
            allowed = [i for i in allowed if self.engines[i].outstanding == least]
        chosen = self._random.choice(allowed)
        self._routed[request_id] = chosen
        return chosen

    def _length(self, identity: str, most: int) -> int:
        digest = hashlib.sha256(f"{self.settings.seed}:{identity}".encode()).digest()
        uniform = (int.from_bytes(digest[:8], "big") + 0.5) / 2**64
        drawn = self.settings.answer_tokens * math.exp(self.settings.answer_sigma * _NORMAL.inv_cdf(uniform))
        return max(1, min(most, round(drawn)))

    async def _generate(
        self, request: Request, body: dict[str, Any], text: str, prefix: str, forced: int | None, reply: Reply
    ) -> None:
        self.requests += 1
        request_id = request.headers.get("x-request-id") or f"anonymous-{self.requests}"
        copy_of = request.headers.get("x-hedge-of")
        most = body.get("max_tokens") or body.get("max_completion_tokens") or 1024
        if not isinstance(most, int) or most < 1:
            return reply.whole(400, b'{"error":"max_tokens is not a whole number above 0"}')
        same = copy_of if copy_of and self.settings.copies_same else None
        replica = self._route(request_id, copy_of, forced)
        engine = self.engines[replica]
        answer = _Answer(
            reply,
            f"{prefix}-{request_id}" + ("-0" if prefix == "cmpl" else ""),
            chat=prefix == "chatcmpl",
            stream=bool(body.get("stream")),
            usage=bool((body.get("stream_options") or {}).get("include_usage")),
        )
        job = Job(max(1, len(text) // 4), self._length(same or request_id, most), answer.token)
        answer.job = job
        self._jobs[answer.name] = (engine, job)
        answer.begin(f"r{replica}")
        engine.submit(job)
        finished = asyncio.create_task(answer.done.wait())
        left = asyncio.create_task(reply.gone.wait())
        aborted = asyncio.create_task(job.gone.wait())
        try:
            await asyncio.wait([finished, left, aborted], return_when=asyncio.FIRST_COMPLETED)
            if reply.gone.is_set() and self.settings.frees:
                engine.abort(job)
            elif not answer.done.is_set() and not reply.gone.is_set():
                answer.cut()
        finally:
            for task in (finished, left, aborted):
                task.cancel()
            self._routed.pop(request_id, None)
            if answer.done.is_set() or job.gone.is_set():
                self._jobs.pop(answer.name, None)
            else:
                # The engine runs on: it can still be told to stop.
                answer.on_end = lambda: self._jobs.pop(answer.name, None)


class _Answer:
    """Writes one answer in OpenAI's form as its tokens come."""

    def __init__(self, reply: Reply, name: str, *, chat: bool, stream: bool, usage: bool) -> None:
        self._reply = reply
        self.name = name
        self._chat = chat
        self._stream = stream
        self._usage = usage
        self._created = int(time.time())
        self._words: list[str] = []
        self._replica = ""
        self.job: Job | None = None
        self.done = asyncio.Event()
        self.on_end: Callable[[], object] = lambda: None

    def begin(self, replica: str) -> None:
        """A stream's headers go out at once, as vLLM's do."""
        self._replica = replica
        if self._stream:
            self._reply.start(200, {"content-type": "text/event-stream", "x-replica": replica})

    def token(self, number: int, last: bool) -> None:
        word = _WORDS[(number - 1) % len(_WORDS)] + " "
        reason = "stop" if last else None
        if self._stream:
            if self._chat:
                delta = {"role": "assistant", "content": word} if number == 1 else {"content": word}
                choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": reason}
            else:
                choice = {"index": 0, "text": word, "finish_reason": reason}
            self._event({"choices": [choice]})
            if last:
                if self._usage:
                    self._event({"choices": [], "usage": self._counts()})
                self._reply.write(b"data: [DONE]\n\n")
                self._reply.end()
        else:
            self._words.append(word)
            if last:
                self._whole()
        if last:
            self.done.set()
            self.on_end()

    def cut(self) -> None:
        """The engine gave up: end the answer as it stands."""
        if self._stream:
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "abort"}]})
            self._reply.write(b"data: [DONE]\n\n")
            self._reply.end()
        else:
            self._reply.whole(503, b'{"error":"aborted"}')

    def _whole(self) -> None:
        text = "".join(self._words)
        inner = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        document = self._frame({"choices": [{"index": 0, "finish_reason": "stop", **inner}], "usage": self._counts()})
        self._reply.whole(200, json.dumps(document).encode(), **{"x-replica": self._replica})

    def _counts(self) -> dict[str, int]:
        assert self.job is not None
        prompt, made = self.job.prompt_tokens, self.job.made
        return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}

    def _frame(self, content: dict[str, Any]) -> dict[str, Any]:
        kind = ("chat.completion" if self._chat else "text_completion") + (".chunk" if self._stream else "")
        return {"id": self.name, "object": kind, "created": self._created, "model": MODEL, **content}

    def _event(self, content: dict[str, Any]) -> None:
        self._reply.write(b"data: " + json.dumps(self._frame(content)).encode() + b"\n\n")


def _chat_text(body: dict[str, Any]) -> str:
    messages = body.get("messages")
    if not isinstance(messages, list):
        return ""
    return "\n".join(str(m.get("content", "")) for m in messages if isinstance(m, dict))
