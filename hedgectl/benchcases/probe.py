"""The bench case ``probe``: CPU and lateness of a probe at 20 requests/s of 20-chunk answers, against a bare httpx loop.

Server, probe and bare loop are processes of their own on loopback, so that each one's CPU time is its own.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import Any

CASE = "probe"
RATE_PER_S, CHUNKS, GAP_S = 20.0, 20, 0.02
ALLOWED_RATIO, ALLOWED_LAG_MS = 1.5, 10.0


def run(*, seconds: float = 10.0, runs: int = 3) -> dict[str, Any]:
    """One row of ``bench.v1``: CPU milliseconds a request, ours and bare, medians of ``runs`` alternating runs.

    The two are compared within a run and each starts a new process; ``lag_p99_ms`` is how late the probe sent,
    ``bare_lag_p99_ms`` how late the bare loop did: what this machine does to anybody.
    """
    ours: list[dict[str, float]] = []
    bare: list[dict[str, float]] = []
    server = subprocess.Popen(_command("serve"), stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        for _ in range(runs):
            ours.append(_child("ours", url, seconds))
            bare.append(_child("bare", url, seconds))
    finally:
        server.terminate()
        server.wait(10)
        if server.stdout is not None:
            server.stdout.close()
    cpu_ours = statistics.median(r["cpu_ms"] for r in ours)
    cpu_bare = statistics.median(r["cpu_ms"] for r in bare)
    return {
        "case": CASE,
        "unit": "CPU ms a request",
        "ours": round(cpu_ours, 3),
        "bare": round(cpu_bare, 3),
        "ratio": round(cpu_ours / cpu_bare, 3),
        "runs": runs,
        "requests": int(ours[0]["requests"]),
        "lag_p99_ms": round(statistics.median(r["lag_p99_ms"] for r in ours), 3),
        "bare_lag_p99_ms": round(statistics.median(r["lag_p99_ms"] for r in bare), 3),
        "limits": {"ratio": ALLOWED_RATIO, "lag_p99_ms": ALLOWED_LAG_MS},
    }


def _command(what: str, *args: str) -> list[str]:
    return [sys.executable, "-c", f"from hedgectl.benchcases import probe; probe._{what}(*{args!r})"]


def _child(what: str, url: str, seconds: float) -> dict[str, float]:
    done = subprocess.run(_command(what, url, str(seconds)), capture_output=True, text=True, timeout=seconds * 5 + 60)
    if done.returncode != 0:
        raise RuntimeError(f"the bench process failed: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _serve() -> None:
    from hedgectl.probe.sandbox.http import Reply, Request, Server

    pieces = [
        b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": f"word{i} "}}]}).encode() + b"\n\n"
        for i in range(CHUNKS)
    ]
    last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

    async def answer(request: Request, reply: Reply) -> None:
        reply.start(200, {"content-type": "text/event-stream"})
        for piece in pieces:
            await asyncio.sleep(GAP_S)
            reply.write(piece)
        reply.write(last)
        reply.end()

    async def go() -> None:
        server = Server(answer)
        print(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}", flush=True)
        await asyncio.Event().wait()

    asyncio.run(go())


def _ours(url: str, seconds: str) -> None:
    from hedgectl.probe import prompts, providers
    from hedgectl.probe.caps import Caps
    from hedgectl.probe.hedged import HedgeRules
    from hedgectl.probe.session import Session
    from hedgectl.probe.settings import ProbeSettings

    count = round(float(seconds) * RATE_PER_S)
    settings = ProbeSettings(
        url=url,
        provider=providers.choose(url, None),
        rules=HedgeRules("first_token", "first_token", delay_s=5.0, total_s=30.0, attempt_s=20.0),
        prompts=prompts.built_in(),
        caps=Caps(requests=count, hedges=count),
        model="m",
        requests=count,
        rates=(RATE_PER_S,),
        arms="interleaved",
        metrics=(),
    )

    async def go() -> dict[str, float]:
        session = Session(settings)
        began = time.process_time()
        outcome = await session.run()
        used = time.process_time() - began
        assert all(c.status == "ok" for c in outcome.calls)
        lags = sorted(c.lag_ns / 1e6 for c in outcome.calls if c.lag_ns is not None)
        return _row(used, count, lags)

    print(json.dumps(asyncio.run(go())))


def _bare(url: str, seconds: str) -> None:
    import httpx

    from hedgectl.probe import prompts, schedule

    count = round(float(seconds) * RATE_PER_S)
    plan = schedule.make(requests=count, rates=(RATE_PER_S,), seed=1, blocks=False, block_s=30)
    questions = prompts.built_in()

    async def call(client: httpx.AsyncClient, index: int) -> None:
        body = {
            "model": "m",
            "messages": list(questions[index % len(questions)].messages),
            "stream": True,
            "max_tokens": 128,
        }
        seen = 0
        async with client.stream("POST", url + "/v1/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    seen += bool(json.loads(line[6:])["choices"][0]["delta"].get("content"))
        assert seen == CHUNKS

    async def go() -> dict[str, float]:
        lags = []
        async with httpx.AsyncClient(timeout=30, limits=httpx.Limits(max_connections=None)) as client:
            began, start = time.process_time(), time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                for planned in plan:
                    due = start + planned.offset_ns / 1e9
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    lags.append((time.monotonic() - due) * 1e3)
                    tasks.create_task(call(client, planned.index))
            return _row(time.process_time() - began, count, sorted(lags))

    print(json.dumps(asyncio.run(go())))


def _row(cpu_s: float, count: int, lags: list[float]) -> dict[str, float]:
    return {
        "cpu_ms": cpu_s * 1e3 / count,
        "requests": count,
        "lag_p99_ms": lags[min(len(lags) - 1, int(0.99 * len(lags)))],
    }
