"""The commands as processes: consent, secrets, signals, exit codes, the database, the sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from probe_runs import answer
from probe_servers import Exchange, Script, Scripted

from hedgectl import schemas

HEDGECTL = [sys.executable, "-m", "hedgectl"]
KEY = "sk-hunter22-very-secret"
FAST = ["--delay", "150ms", "--rates", "40", "--arms", "interleaved", "--model", "m", "--deadline", "60s"]


@contextmanager
def serving(script: Script) -> Iterator[Scripted]:
    """The scripted server in a thread with a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = Scripted(script)
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def hedgectl(
    *args: str, stdin: str | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HEDGECTL, *args],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | (env or {}),
        check=False,
    )


async def quick(x: Exchange) -> None:
    x.start(**{"x-replica": "r0"})
    await answer(x, "a", "b", gap=0.1)


def valid(text: str) -> dict[str, Any]:
    doc: dict[str, Any] = json.loads(text)
    jsonschema.validate(doc, schemas.load("probe"))
    return doc


def test_nothing_is_sent_without_a_yes_and_nothing_by_a_dry_run() -> None:
    with serving(quick) as server:
        refused = hedgectl("probe", server.url, *FAST)
        assert refused.returncode == 2
        assert "120 requests" in refused.stderr
        assert "--yes" in refused.stderr
        typed = hedgectl("probe", server.url, *FAST, stdin="yes\n")
        assert typed.returncode == 2, "a pipe is not a person"
        dry = hedgectl("probe", server.url, *FAST, "--dry-run", "-o", "json")
        assert dry.returncode == 0
        doc = valid(dry.stdout)
        assert (doc["sent"], doc["planned"], doc["stopped_early"]) == (0, 120, "dry_run")
        assert server.posts == []


def test_the_document_the_table_and_the_database_of_one_run(tmp_path: Path) -> None:
    db = tmp_path / "p.duckdb"
    with serving(quick) as server:
        done = hedgectl(
            "probe", server.url, *FAST, "--requests", "30", "--yes", "-o", "json", "--db", str(db), "--price-in", "1",
            "--price-out", "2",
        )  # fmt: skip
        assert len(server.posts) <= 60
    assert done.returncode in (0, 3), done.stderr  # 3: a busy machine makes the run void
    doc = valid(done.stdout)
    assert doc["arms"]["unhedged"]["requests"] == doc["arms"]["hedged"]["requests"] == 15
    assert doc["spend"]["currency"] == "USD"
    import duckdb

    con = duckdb.connect(str(db), read_only=True)
    rows = con.execute("SELECT count(*), count(DISTINCT request_id), sum(won::INT) FROM attempt").fetchone()
    assert rows == (doc["accounting"]["attempts"], 30, 30)
    first = con.execute(
        "SELECT format, observer, replica, model, provider, ttft_basis, streamed, prompt_tokens, completion_tokens, "
        "e2e_ns > ttft_ns AND decode_ns = e2e_ns - ttft_ns, cost > 0, closed_loop FROM attempt "
        "WHERE attempt_no = 0 AND won ORDER BY arrival_ns LIMIT 1"
    ).fetchone()
    assert first == ("probe", "client", "r0", "m", "openai", "first_token", True, 7, 2, True, True, False)
    con.close()
    shown = hedgectl("breakdown", "--db", str(db), "-o", "json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["groups"][0]["requests"] == 30
    from hedgectl.cli import output

    table = output.render(doc, "table", width=100)
    for word in ("unhedged", "hedged", "TTFT", "copies", "engine stopped", "spend"):
        assert word in table
    records = [json.loads(line) for line in output.render(doc, "jsonl").splitlines()]
    assert {r["arm"] for r in records} == {"unhedged", "hedged"}


def test_no_secret_in_anything_that_is_written(tmp_path: Path) -> None:
    async def echo(x: Exchange) -> None:
        """A server that says the key back in every way it can."""
        said = x.headers.get("authorization", "")
        if x.number % 3 == 0:
            x.start(401, x_request_id=said, www_authenticate=said)
            x.send(json.dumps({"error": {"message": f"bad key {said}"}}).encode())
            x.finish()
        elif x.number % 3 == 1:
            x.start(x_served_by=said, x_replica=said)
            x.send(b"data: " + json.dumps({"error": {"message": said}}).encode() + b"\n\n")
            x.finish()
        else:
            x.start(x_replica=said)
            await answer(x, said, "b")

    db, out = tmp_path / "p.duckdb", tmp_path / "out.json"
    env = {"PROBE_KEY": KEY, "PROBE_TENANT": KEY + "-tenant"}
    with serving(echo) as server:
        run = hedgectl(
            "probe", server.url, *FAST, "--requests", "12", "--yes", "-v", "-o", "json", "-O", str(out), "--db", str(db),
            "--key-env", "PROBE_KEY", "--header-env", "x-tenant=PROBE_TENANT",
            env=env,
        )  # fmt: skip
        sent = [h for h in server.seen_headers if KEY in h.get("authorization", "")]
        assert len(sent) == len(server.seen_headers) >= 12, "the key reached the server"
        assert all(h["x-tenant"] == KEY + "-tenant" for h in server.seen_headers)
        failed = hedgectl("probe", server.url + "/?key=" + KEY, *FAST, "--yes", env=env)
    gone = hedgectl("probe", "http://127.0.0.1:1", *FAST, "--requests", "3", "--yes", "--key-env", "PROBE_KEY", env=env)
    assert failed.returncode == 2
    assert gone.returncode == 6, gone.stderr
    import duckdb

    con = duckdb.connect(str(db), read_only=True)
    kept = repr([con.execute(f"SELECT * FROM {t}").fetchall() for t in ("attempt", "ingested_file", "reject")])
    con.close()
    written = [run.stdout, run.stderr, failed.stdout, failed.stderr, gone.stdout, gone.stderr, kept]
    written += [p.read_bytes().decode("latin-1") for p in tmp_path.iterdir()]
    assert any(len(text) > 1000 for text in written)
    for text in written:
        assert "hunter22" not in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupt_finishes_the_accounting(number: signal.Signals, tmp_path: Path) -> None:
    async def endless(x: Exchange) -> None:
        x.start()
        x.token("t")
        await x.wait(60)

    db = tmp_path / "p.duckdb"
    with serving(endless) as server:
        child = subprocess.Popen(
            [
                *HEDGECTL,
                "probe",
                server.url,
                *FAST,
                "--requests",
                "500",
                "--deadline",
                "60s",
                "--yes",
                "-o",
                "json",
                "--db",
                str(db),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until = time.monotonic() + 60
        while sum(x.tokens for x in server.exchanges) < 3 and time.monotonic() < until:
            time.sleep(0.02)
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=60)
        posts = len(server.posts)
    assert child.returncode == 128 + number, stderr
    doc = valid(stdout)
    assert doc["stopped_early"] == number.name
    assert doc["accounting"]["open"] == 0
    assert doc["accounting"]["censored"] == doc["accounting"]["attempts"] >= posts >= 3
    import duckdb

    con = duckdb.connect(str(db), read_only=True)
    assert con.execute("SELECT count(*), min(status) FROM attempt").fetchone() == (
        doc["accounting"]["attempts"],
        "censored",
    )
    con.close()


def test_a_killed_probe_has_sent_nothing_beyond_its_caps() -> None:
    async def slow(x: Exchange) -> None:
        x.start()
        await answer(x, "t", gap=0.5)

    with serving(slow) as server:
        child = subprocess.Popen(
            [*HEDGECTL, "probe", server.url, *FAST, "--requests", "9", "--max-hedges", "2", "--yes"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 60
        while len(server.posts) < 9 and time.monotonic() < until and child.poll() is None:
            time.sleep(0.005)
        child.kill()
        child.wait(10)
        time.sleep(0.3)
        assert 9 <= len(server.posts) <= 11
        copies = sum("x-hedge-of" in h for h in server.seen_headers)
        assert copies <= 2


def test_a_policy_of_recommend_is_obeyed_and_a_refusal_is_not_tried(tmp_path: Path) -> None:
    policy = {
        "schema": "hedgectl/policy.v1",
        "as_of": "2026-11-29T00:00:00Z",
        "policies": [
            {
                "scope": {"model": "m"},
                "decision": "hedge",
                "hedge": {
                    "trigger": "first_token",
                    "delay_ms": 5000.0,
                    "budget": {"ratio": 0.05, "burst": 3, "max_concurrent": 2},
                    "deadline": {"total_ms": 9000.0, "attempt_ms": 8000.0},
                },
                "suppress_when": [{"signal": "target_queue_age_ms", "op": ">", "value": 1000.0}],
            }
        ],
    }
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(policy))
    dry = hedgectl("probe", "http://127.0.0.1:1", "--policy", str(path), "--dry-run", "-o", "json")
    assert dry.returncode == 0, dry.stderr
    plan = json.loads(dry.stdout)["plan"]
    assert (plan["delay_ms"], plan["deadline_ms"], plan["attempt_ms"]) == (5000.0, 9000.0, 8000.0)
    assert plan["budget"] == {"ratio": 0.05, "burst": 3.0, "max_concurrent": 2}
    policy["policies"][0]["decision"] = "do_not_hedge"  # type: ignore[index]
    path.write_text(json.dumps(policy))
    refused = hedgectl("probe", "http://127.0.0.1:1", "--policy", str(path), "--dry-run")
    assert refused.returncode == 2
    assert "do_not_hedge" in refused.stderr


def test_the_sandbox_serves_a_probe_and_ends_when_told() -> None:
    box = subprocess.Popen([*HEDGECTL, "sandbox", "--replicas", "2", "--slow", "1"], stdout=subprocess.PIPE, text=True)
    try:
        assert box.stdout is not None
        url = box.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        args = ["--delay", "300ms", "--requests", "12", "--rates", "4", "--answer-tokens", "10", "--yes", "-o", "json"]
        done = hedgectl("probe", url, *args)
        assert done.returncode in (0, 3), done.stderr
        doc = valid(done.stdout)
        assert doc["model"] == "sandbox"
        assert doc["signals"]["engine"] == "vllm"
        assert doc["accounting"]["ok"] >= 12
    finally:
        box.send_signal(signal.SIGINT)
        assert box.wait(30) == 130


def test_sandbox_flags_are_checked() -> None:
    assert hedgectl("sandbox", "--replicas", "1", "--slow", "2").returncode == 2
    assert hedgectl("sandbox", "--routing", "best").returncode == 2
