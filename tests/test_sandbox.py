"""The sandbox obeys the replay's law in real time, and serves what it says it serves."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from hedgectl.probe import gauges
from hedgectl.probe.sandbox.app import Sandbox, SandboxSettings
from hedgectl.probe.sandbox.engine import Engine, Job, Law


def engine(law: Law, slowness: float, jobs: list[tuple[float, int, int]], until: float) -> list[list[float]]:
    """Token times of jobs (at, prompt, answer), seconds from the start."""

    async def go() -> list[list[float]]:
        replica = Engine(law, slowness)
        worker = asyncio.create_task(replica.run())
        start = time.monotonic()
        times: list[list[float]] = [[] for _ in jobs]

        async def send(i: int, at: float, prompt: int, answer: int) -> None:
            await asyncio.sleep(at)
            replica.submit(Job(prompt, answer, lambda n, last: times[i].append(time.monotonic() - start)))

        await asyncio.gather(*(send(i, *job) for i, job in enumerate(jobs)))
        async with asyncio.timeout(until):
            while replica.outstanding:
                await asyncio.sleep(0.01)
        worker.cancel()
        assert replica.finished == len(jobs)
        return times

    return asyncio.run(go())


def test_prefill_and_decode_take_what_the_law_says() -> None:
    # 0.2 + 100 * 0.002 = 0.4 s of prefill, then 4 steps of 0.1 + 0.02; a timer may be late, never early
    (one,) = engine(Law(0.2, 0.002, 0.1, 0.02, 8, 10_000), 1.0, [(0.0, 100, 5)], 20)
    assert len(one) == 5
    assert one[0] >= 0.4
    assert one[-1] >= 0.4 + 4 * 0.12 - 0.001
    (slow,) = engine(Law(0.1, 0.0, 0.05, 0.0, 8, 10_000), 3.0, [(0.0, 1, 3)], 20)
    assert slow[0] >= 0.3
    assert slow[-1] >= 0.3 + 2 * 0.15 - 0.001


def test_a_prefill_pauses_decode_and_the_batch_cap_makes_a_queue() -> None:
    first, second = engine(Law(0.4, 0.0, 0.05, 0.0, 8, 10_000), 1.0, [(0.0, 1, 20), (0.5, 1, 2)], 30)
    gaps = [b - a for a, b in itertools.pairwise(first)]
    assert max(gaps) >= 0.4, "the other's prefill stands between two tokens"
    assert second[0] >= 0.9
    capped = engine(Law(0.1, 0.0, 0.05, 0.0, 1, 10_000), 1.0, [(0.0, 1, 5), (0.01, 1, 1)], 30)
    assert capped[1][0] >= capped[0][-1]
    cache = engine(Law(0.1, 0.0, 0.05, 0.0, 8, 100), 1.0, [(0.0, 60, 5), (0.01, 60, 1)], 30)
    assert cache[1][0] >= cache[0][-1], "prompt and answer are reserved at once"


def serving(settings: SandboxSettings, use: Callable[[Sandbox, httpx.AsyncClient], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        box = Sandbox(settings)
        await box.start()
        try:
            async with httpx.AsyncClient(base_url=box.url, timeout=20, trust_env=False) as client:
                return await use(box, client)
        finally:
            await box.close()

    return asyncio.run(go())


LAW = Law(0.02, 0.0, 0.005, 0.0, 4, 10_000)
SMALL = SandboxSettings(replicas=2, slow=0, law=LAW, answer_tokens=6, answer_sigma=0.3)
BODY = {"model": "sandbox", "messages": [{"role": "user", "content": "x" * 80}], "max_tokens": 50}


def test_streamed_and_whole_answers_agree_with_their_usage() -> None:
    async def use(box: Sandbox, client: httpx.AsyncClient) -> None:
        ids = {"x-request-id": "same"}
        stream = {**BODY, "stream": True, "stream_options": {"include_usage": True}}
        lines = (await client.post("/v1/chat/completions", json=stream, headers=ids)).text.split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""]
        events = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
        text = "".join(c["delta"].get("content", "") for e in events for c in e["choices"])
        usage = events[-1]["usage"]
        whole = (await client.post("/v1/chat/completions", json=BODY, headers=ids)).json()
        assert whole["choices"][0]["message"]["content"] == text
        assert whole["usage"] == usage
        assert usage["prompt_tokens"] == 20
        assert usage["completion_tokens"] == len(text.split())
        plain = (await client.post("/v1/completions", json={"prompt": "x" * 80, "max_tokens": 50}, headers=ids)).json()
        assert plain["choices"][0]["text"] == text
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "sandbox"

    serving(SMALL, use)


def test_the_length_of_an_answer_is_drawn_by_seed_and_a_copy_has_its_primarys() -> None:
    async def length(client: httpx.AsyncClient, **headers: str) -> int:
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        answer = (await client.post("/v1/chat/completions", json=BODY, headers=named)).json()
        return int(answer["usage"]["completion_tokens"])

    async def use(box: Sandbox, client: httpx.AsyncClient) -> list[int]:
        copy = await length(client, x_request_id="c", x_hedge_of="a")
        return [copy, *[await length(client, x_request_id=name) for name in "abcdef"]]

    wide = SandboxSettings(replicas=1, slow=0, law=LAW, answer_tokens=8, answer_sigma=0.8)
    copy, first, *others = serving(wide, use)
    assert copy == first
    assert len(set(others)) > 1
    assert serving(wide, use) == [copy, first, *others]


def test_copies_avoid_their_primarys_replica_and_a_path_names_one() -> None:
    async def use(box: Sandbox, client: httpx.AsyncClient) -> None:
        stream = {**BODY, "stream": True}
        for i in range(6):
            async with client.stream(
                "POST", "/v1/chat/completions", json=stream, headers={"x-request-id": f"p{i}"}
            ) as first:
                headers = {"x-request-id": f"q{i}", "x-hedge-of": f"p{i}"}
                second = await client.post("/v1/chat/completions", json=stream, headers=headers)
                assert {first.headers["x-replica"], second.headers["x-replica"]} == {"r0", "r1"}
                await first.aread()
        for i in (0, 1):
            forced = await client.post(f"/r{i}/v1/chat/completions", json=BODY)
            assert forced.headers["x-replica"] == f"r{i}"
        assert (await client.post("/r2/v1/chat/completions", json=BODY)).status_code == 404

    serving(SMALL, use)


def test_metrics_tell_the_load_under_vllms_names() -> None:
    async def use(box: Sandbox, client: httpx.AsyncClient) -> None:
        long = {**BODY, "stream": True, "max_tokens": 1000}
        streams = [
            client.stream("POST", "/r0/v1/chat/completions", json=long, headers={"x-request-id": str(i)})
            for i in range(6)
        ]
        for stream in streams:
            await stream.__aenter__()
        async with asyncio.timeout(10):
            while True:
                found = gauges.read((await client.get("/metrics")).text)
                assert found is not None
                if found.running == 4 and found.waiting == 2:
                    break
                await asyncio.sleep(0.02)
        assert (found.engine, found.replicas) == ("vllm", 2)
        only = gauges.read((await client.get("/r1/metrics")).text)
        assert only is not None
        assert (only.replicas, only.running) == (1, 0.0)
        for stream in streams:
            await stream.__aexit__(None, None, None)
        async with asyncio.timeout(10):
            while box.engines[0].outstanding:
                await asyncio.sleep(0.02)
        assert box.engines[0].aborted == 6

    settings = SandboxSettings(replicas=2, slow=0, law=LAW, answer_tokens=2000, answer_sigma=0.0)
    serving(settings, use)


@pytest.mark.parametrize("frees", [True, False])
def test_a_client_that_leaves_frees_the_engine_unless_it_runs_on(frees: bool) -> None:
    async def use(box: Sandbox, client: httpx.AsyncClient) -> tuple[int, int]:
        async with client.stream("POST", "/v1/chat/completions", json={**BODY, "stream": True}) as stream:
            await anext(stream.aiter_bytes())
        async with asyncio.timeout(10):
            while box.engines[0].outstanding:
                await asyncio.sleep(0.02)
        return box.engines[0].aborted, box.engines[0].generated_tokens

    settings = SandboxSettings(replicas=1, slow=0, law=LAW, answer_tokens=40, answer_sigma=0.0, frees=frees)
    aborted, made = serving(settings, use)
    assert aborted == int(frees)
    assert made < 40 if frees else made == 40


def test_an_abort_of_nothing_named_aborts_everything_like_vllm() -> None:
    async def use(box: Sandbox, client: httpx.AsyncClient) -> None:
        async def ask(name: str) -> str:
            stream = {**BODY, "stream": True}
            return (await client.post("/v1/chat/completions", json=stream, headers={"x-request-id": name})).text

        tasks = [asyncio.create_task(ask(name)) for name in ("a", "ab")]
        async with asyncio.timeout(10):
            while box.engines[0].outstanding < 2:
                await asyncio.sleep(0.01)
        await client.post("/abort_requests", json={"request_ids": ["chatcmpl-a"]})
        assert '"finish_reason": "abort"' in await tasks[0]
        assert not tasks[1].done(), "ids match whole"
        await client.post("/abort_requests", json={})
        assert '"finish_reason": "abort"' in await tasks[1]

    serving(SandboxSettings(replicas=1, slow=0, law=LAW, answer_tokens=900, answer_sigma=0.0), lambda b, c: use(b, c))


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n[]", b"400"),
        (b'POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 18\r\n\r\n{"max_tokens":-10}', b"400"),
        (b"PUT / HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\ncontent-length: many\r\n\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nconnection: close\r\n\r\n", b"200"),
    ],
)
def test_what_is_no_request_gets_an_answer_and_no_crash(raw: bytes, status: bytes) -> None:
    async def use(box: Sandbox, client: httpx.AsyncClient) -> bytes:
        host, port = box.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for i in range(len(raw)):  # a byte at a time
            writer.write(raw[i : i + 1])
            await asyncio.sleep(0)
        line = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
        return line

    assert serving(SMALL, use).split()[1] == status
