"""What a person at a terminal sees while a command works: each stage by its name, the seconds, and nothing left behind."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import select
import subprocess
import sys
from types import SimpleNamespace

import engine_logs
import pytest

from hedgectl.cli import output

ERASE = "\r\x1b[2K"
STAGES = (
    "reading",
    "putting requests together",
    "diagnosing chat",
    "loading chat",
    "loading the replay",
    "fitting the engines",
    "checking the replay against the log",
    "screen",
    "halving",
    "replaying finalists",
    "trying the busiest hour and rho 0.9",
    "looking for better cures",
    "measuring the change",
    "pricing the policy",
)


@pytest.fixture(scope="module")
def argv(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("log")
    w = engine_logs.log(4000, slow=6.0, seed=2)
    rows = [
        {
            "id": f"c-{i}", "call_type": "acompletion", "stream": True, "status": "success", "model_group": "chat",
            "model": "llama", "model_id": f"replica-{w.replica[i]}", "custom_llm_provider": "hosted_vllm",
            "startTime": round(start, 6), "completionStartTime": round(start + w.ttft_s[i], 6),
            "endTime": round(start + w.e2e_s[i], 6), "prompt_tokens": int(w.prompt_tokens[i]),
            "completion_tokens": int(w.completion_tokens[i]), "cache_hit": False,
        }
        for i, start in enumerate(w.t0_ns / 1e9 + w.arrival_s)
    ]  # fmt: skip
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    facts = engine_logs.config()
    lines = [f"{name} = {json.dumps(facts.get(f'engine.{name}'))}\n" for name in ("confirmed", "replicas")]
    lines += [f"{name} = {facts.get(f'engine.{name}')}\n" for name in ("max_running_requests", "kv_capacity_tokens")]
    (folder / "engines.toml").write_text("[engine]\n" + "".join(lines))
    return ["recommend", str(folder / "log.jsonl"), "--config", str(folder / "engines.toml"), "-o", "json"]


def at_terminal(argv: list[str]) -> tuple[bytes, str]:
    """(stdout, what the terminal at stderr was sent)."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hedgectl", *argv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as child:
        os.close(theirs)
        shown = b""
        while part := _read(ours):
            shown += part
        os.close(ours)
        assert child.stdout is not None
        document = child.stdout.read()
    assert child.returncode == 0, shown
    return document, shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the last writer has gone
        return b""


def test_a_terminal_sees_every_stage_and_how_far_it_is_and_a_pipe_sees_none(argv: list[str]) -> None:
    document, shown = at_terminal(argv)
    texts = [text for text in shown.split(ERASE) if text]
    names = [re.sub(r"(, \d+ s)?$", "", text) for text in texts]
    names = [re.sub(r"( \d+ %|(?<=^reading) .*)$", "", name) for name in names]
    seen = [name for name in dict.fromkeys(names) if not name.startswith(("compiling the replay", "trying it with"))]
    assert seen == list(STAGES)
    for stage in ("fitting the engines", "screen", "halving", "replaying finalists"):
        shares = [int(found[1]) for text in texts if (found := re.match(rf"{stage} (\d+) %", text))]
        assert len(set(shares)) >= 3, stage
        assert shares == sorted(shares), stage
        assert shares[-1] <= 100, stage
    assert shown.endswith(ERASE)
    piped = subprocess.run([sys.executable, "-m", "hedgectl", *argv], capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (document, b"")


def test_quiet_is_silent_on_a_terminal_too(argv: list[str]) -> None:
    assert at_terminal(["breakdown", argv[1], "-q"])[1] == ""


def stand_in(monkeypatch: pytest.MonkeyPatch) -> int:
    """Makes stderr a terminal; returns where to read what it is sent. No fixture, since pytest sets stderr after those."""
    ours, theirs = pty.openpty()
    monkeypatch.setattr(sys, "stderr", os.fdopen(theirs, "w"))
    monkeypatch.setattr(output, "_TICK_S", 0.01)
    return ours


def until(terminal: int, wanted: str) -> str:
    seen = ""
    while wanted not in seen:
        assert select.select([terminal], [], [], 60.0)[0], f"{wanted!r} never came: {seen!r}"
        seen += os.read(terminal, 65536).decode()
    return seen


def test_the_seconds_of_a_silent_stage_are_counted_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stand_in(monkeypatch)
    seconds = itertools.count()
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with output.progress("asking") as progress:
        assert "asking, 1 s" in until(terminal, "asking, 3 s")
        progress.stage("screen", 0.256)
        until(terminal, "screen 26 %, ")
        progress.clear()
        clock = progress._clock
        assert clock is not None
        at = next(seconds)
        progress("halving")
        until(terminal, f"halving, {at + 1} s")
    clock.join(60.0)
    assert not clock.is_alive()
    sys.stderr.write("what follows")
    sys.stderr.flush()
    assert until(terminal, "what follows").endswith(f"{ERASE}what follows")


def test_a_line_that_would_wrap_loses_its_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = stand_in(monkeypatch)
    with output.progress(f"reading /logs/{'x' * 200}/today.jsonl: 17 of 369 MB"):
        shown = until(terminal, "369 MB").removeprefix(ERASE)
    assert shown.startswith("reading /logs/xxx")
    assert "x...x" in shown
    assert len(shown) == 99  # of 100 columns, which is what a terminal without a size has
