"""The commands emit, diff and explain as a user runs them: exit codes, pipes, files, what is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from policy_documents import document, full, hedging

from hedgectl import policy, schemas

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*args: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        text = json.dumps(stdin) if isinstance(stdin, dict) else (stdin or "")
        command = [sys.executable, "-m", "hedgectl", *args]
        return subprocess.run(command, cwd=tmp_path, input=text, capture_output=True, text=True, timeout=60)

    return run


def test_a_pipe_and_a_file_hold_the_same_bytes(run: Run, tmp_path: Path) -> None:
    piped = run("emit", "-", "--to", "env", stdin=full())
    assert (piped.returncode, piped.stderr) == (0, "")
    (tmp_path / "policy.json").write_text(json.dumps(full()), encoding="utf-8")
    written = run("emit", "policy.json", "--to", "env", "-O", "hedge.env")
    assert (written.returncode, written.stdout) == (0, "")
    assert (tmp_path / "hedge.env").read_text(encoding="utf-8") == piped.stdout


def test_losses_are_said_on_stderr_and_strict_exits_3(run: Run, tmp_path: Path) -> None:
    said = run("emit", "-", "--to", "envoy", stdin=full())
    assert said.returncode == 0
    assert "nearest:" in said.stderr
    strict = run("emit", "-", "--to", "envoy", "--strict", "-O", "envoy.yaml", stdin=full())
    assert strict.returncode == 3
    assert not (tmp_path / "envoy.yaml").exists()
    assert "--strict" in strict.stderr
    printed = run("emit", "-", "--to", "envoy", "--strict", "-o", "json", stdin=full())
    assert printed.returncode == 3
    shown = json.loads(printed.stdout)
    jsonschema.validate(shown, schemas.load("emit"))
    assert shown["refused"]
    assert shown["text"] == said.stdout


def test_refusals_exit_3_and_write_nothing(run: Run) -> None:
    unseen = run("emit", "-", "--to", "grpc", stdin=document(hedging("first_token")).to_document())
    assert (unseen.returncode, unseen.stdout) == (3, "")
    assert "hedgectl recommend --for grpc" in unseen.stderr
    needed = policy.Suppress("target_queue_age_ms", ">", 1000.0, source="replay")
    lost = run("emit", "-", "--to", "client", stdin=document(hedging(suppress_when=(needed,))).to_document())
    assert (lost.returncode, lost.stdout) == (3, "")
    assert "not stable" in lost.stderr or "stable" in lost.stderr


@pytest.mark.parametrize(
    ("args", "stdin", "code", "word"),
    [
        (["emit", "-"], full(), 2, "--to"),
        (["emit", "-", "--to", "envoi"], full(), 2, "did you mean envoy?"),
        (["emit", "-", "--to", "nginx"], full(), 2, "cannot hedge"),
        (["emit", "-", "--to", "envoy", "--set", "cluster"], full(), 2, "NAME=VALUE"),
        (["emit", "-", "--to", "json"], "", 4, "empty"),
        (["emit", "-", "--to", "json"], "{", 4, "not even JSON"),
        (["emit", "-", "--to", "json"], {"schema": "hedgectl/diagnosis.v1"}, 2, "not a policy"),
        (["emit", "missing.json", "--to", "json"], "", 4, "No such file"),
        (["diff", "-", "-"], full(), 2, "both"),
        (["explain", "missing.json"], "", 4, "No such file"),
        (["emit", "--check", "missing.yaml", "--to", "envoy"], "", 4, "cannot read"),
    ],
)
def test_mistakes(run: Run, args: list[str], stdin: Any, code: int, word: str) -> None:
    done = run(*args, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, "")
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_check_prints_lints_and_exits_3_on_errors(run: Run, tmp_path: Path) -> None:
    config = {"enabled": True, "expiresAt": "x", "hedgeAfterMs": 9, "totalTimeoutMs": 5, "budgetPercent": 5}
    (tmp_path / "c.json").write_text(json.dumps(config), encoding="utf-8")
    bad = run("emit", "--check", "c.json", "--to", "client", "-o", "json")
    assert bad.returncode == 3
    assert [lint["code"] for lint in json.loads(bad.stdout)["lints"]] == ["never_hedges"]
    (tmp_path / "c.json").write_text(json.dumps({**config, "totalTimeoutMs": 50}), encoding="utf-8")
    good = run("emit", "--check", "c.json", "--to", "client")
    assert (good.returncode, good.stderr) == (0, "")
    assert "nothing found" in good.stdout


def test_diff_and_explain(run: Run, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps(full()), encoding="utf-8")
    new = full()
    new["policies"][0]["hedge"]["delay_ms"] = 2600.0
    table = run("diff", "old.json", "-", stdin=new)
    assert table.returncode == 0
    assert "hedge.delay_ms" in table.stdout
    explained = run("explain", "old.json", "-o", "json")
    jsonschema.validate(json.loads(explained.stdout), schemas.load("explain"))


def test_the_list(run: Run) -> None:
    listed = run("emit", "--list")
    assert listed.returncode == 0
    for word in ("envoy", "LiteLLM", "two ways"):
        assert word in listed.stdout
    jsonschema.validate(json.loads(run("emit", "--list", "-o", "json").stdout), schemas.load("emit_list"))


def test_an_edited_policy_is_noticed(run: Run) -> None:
    edited = {**policy.parse(full()).to_document(), "policy_id": "sha256:0"}
    assert "edited" in run("emit", "-", "--to", "json", stdin=edited).stderr


def test_emit_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(json.dumps(full()), encoding="utf-8")
    code = (
        "import sys\nfrom hedgectl.cli import main\n"
        "try:\n    main(['emit', 'policy.json', '--to', 'env'])\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'duckdb', 'numba', 'numpy', 'httpx', 'fastdigest', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
