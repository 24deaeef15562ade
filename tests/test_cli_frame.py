"""The frame of the command line, from outside: help stays light, errors have a shape, pipes and signals end well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("duckdb", "numpy", "numba", "httpx", "fastdigest", "genai_prices", "altair", "ray", "boto3")


def run(*argv: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hedgectl", *argv],
        capture_output=True, text=True, cwd=cwd, env={**os.environ, **(env or {})}, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], [], ["recommend", "--help"], ["formats"], ["emit", "--list"]]
)
def test_light_commands_load_no_heavy_library(argv: list[str]) -> None:
    code = (
        "import sys\n"
        "from hedgectl.cli import main\n"
        "try:\n"
        f"    main({argv!r})\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code\n"
        f"loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


READS_A_LOG = {
    "recommend": [], "breakdown": [], "diagnose": [], "simulate": ["--no-hedge"], "check": [], "stats": [],
    "ingest": ["--db", "x.duckdb"], "report": ["-O", "x.html"], "daily": ["--policy-file", "x.json"],
    "sql": ["SELECT 1"],
}  # fmt: skip


@pytest.mark.parametrize("name", READS_A_LOG)
def test_a_command_gives_a_sign_before_it_loads_anything_heavy(name: str, tmp_path: Path) -> None:
    argv = [name, *READS_A_LOG[name], "log.jsonl"]
    code = (
        "import os, sys\n"
        "from hedgectl.cli import main, output\n"
        "def sign(self, text):\n"
        f"    print(text, [m for m in {HEAVY!r} if m in sys.modules], flush=True)\n"
        "    os._exit(0)\n"
        "output.Progress.__call__ = sign\n"
        f"main({argv!r})\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.stdout == "reading []\n", done.stderr


def commands() -> list[str]:
    done = run("--help")
    section = done.stdout.split("Commands:")[1].split("Start here:")[0]
    return [line.split()[0] for line in section.splitlines() if line.startswith("  ") and line[2:3] not in ("", " ")]


def test_each_command_opens_with_two_examples_and_says_what_comes_next() -> None:
    found = commands()
    assert "recommend" in found
    for name in found:
        text = run(name, "--help").stdout
        assert text.count("hedgectl " + name) >= 2, f"{name} --help shows fewer than two examples"
        assert "Next:" in text, f"{name} --help does not say what comes next"


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["nonsense"], 2, "No such command"),
        (["recommend", "--budget", "lots"], 2, "is not a share"),
        (["recommend", "--budget", "0%"], 2, "above 0%"),
        (["simulate", "--budget", "500%", "--trigger", "response", "--delay", "1s"], 2, "--no-hedge"),
        (["simulate", "--trigger", "first_token", "--delay", "0s"], 2, "must be above 0"),
        (["probe", "http://127.0.0.1:9", "--delay", "1s", "--deadline", "0s"], 2, "--deadline must be above 0"),
        (["breakdown", "missing.jsonl"], 4, "missing.jsonl"),
        (["breakdown"], 2, "no log"),
        (["breakdown", "--db", "missing.duckdb"], 2, "missing.duckdb"),
        (["breakdown", "x", "-o", "xml"], 2, "one of: table"),
        (["config", "schema", "nonsense"], 2, "no document named"),
    ],
)
def test_errors_say_what_and_hint_and_keep_stdout_clean(argv: list[str], code: int, words: str, tmp_path: Path) -> None:
    done = run(*argv, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("hedgectl: error: ")
    assert words in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "an error leaves no file behind"


def test_a_closed_pipe_is_success() -> None:
    writer = subprocess.Popen(
        [sys.executable, "-m", "hedgectl", "config", "schema", "policy"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    assert writer.wait(60) == 0
    assert writer.stderr.read() == b""
    writer.stderr.close()


def test_every_schema_is_a_schema() -> None:
    from jsonschema import Draft202012Validator

    from hedgectl import schemas

    assert "policy.v1" in schemas.kinds()
    for kind in schemas.kinds():
        loaded = schemas.load(kind)
        Draft202012Validator.check_schema(loaded)
        assert json.loads(run("config", "schema", kind).stdout) == loaded if kind == "policy.v1" else True


def test_settings_are_a_document_with_a_schema(tmp_path: Path) -> None:
    from jsonschema import validate

    from hedgectl import schemas

    text = '[recommend]\nbudget = "3%"\nsegments = ["pro", "free"]\n[daily]\nwindow = "7d"\n[prices."m"]\ninput_per_mtok = 1.5\n'
    (tmp_path / "hedgectl.toml").write_text(text)
    document = json.loads(run("config", "show", "-o", "json", cwd=tmp_path, env={"HEDGECTL_TZ": "Asia/Tokyo"}).stdout)
    validate(document, schemas.load("config"))
    found = {s["setting"]: (s["value"], s["origin"]) for s in document["settings"]}
    assert found["recommend.budget"] == (0.03, "hedgectl.toml:2")
    assert found["daily.window"][0] == 7 * 86_400
    assert found["tz"] == ("Asia/Tokyo", "HEDGECTL_TZ")
    assert found["engine.replicas"] == (None, "default")


def test_out_writes_the_same_bytes_as_stdout(tmp_path: Path) -> None:
    piped = run("config", "show", "-o", "json", cwd=tmp_path)
    written = run("config", "show", "-o", "json", "-O", "x.json", cwd=tmp_path)
    assert written.returncode == 0
    assert written.stdout == ""
    assert (tmp_path / "x.json").read_text(encoding="utf-8") == piped.stdout


def test_out_into_a_missing_folder_is_an_error_without_a_trace(tmp_path: Path) -> None:
    done = run("config", "show", "-O", "nowhere/x.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_a_signal_during_a_query_is_no_fault(number: signal.Signals, code: int, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"ts": "2026-01-05T08:00:00Z", "request_id": "a", "e2e_ms": 900, "status": 200}\n')
    endless = "SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b"
    script = (
        "import os, threading\n"
        "from hedgectl import query\n"
        "from hedgectl.cli import main\n"
        "run = query.run\n"
        "def again():\n"  # until it is heard: one that comes during a finalizer is lost
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    timer()\n"
        "def timer():\n"
        "    one = threading.Timer(0.5, again)\n"
        "    one.daemon = True\n"
        "    one.start()\n"
        "def begun(*args, **more):\n"
        "    timer()\n"
        "    return run(*args, **more)\n"
        "query.run = begun\n"
        f"main(['sql', {endless!r}, {str(log)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert "fault" not in done.stderr
