"""Every example in the help of every command runs as it stands, on files of the names it uses."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from hedgectl.cli.app import app

SAMPLES = Path(__file__).parent.parent / "sample_logs"
DEMO = SAMPLES / "litellm_payload" / "demo.jsonl.gz"
MOVED = {"/var/log/gateway": "logs", "/var/lib/node_exporter": "."}  # folders of a machine, here those of the test
NOT_HERE = {
    "s3://": "an object store: tested where the real systems are",
    "https://gw.example": "somebody's gateway: probe is tested against scripted servers",
    "hedgectl sandbox": "serves until it is stopped: tested in test_sandbox",
    "hedgectl probe http://127.0.0.1:8080": "needs that sandbox",
    "hedgectl bench": "minutes of timing",
}
NOT_ENOUGH = ("hedgectl verify",)  # the demo was not hedged in blocks, and verify says so with exit 3


def examples() -> list[str]:
    group: Any = typer.main.get_group(app)
    found: dict[str, None] = {}
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        for each in (command, *getattr(command, "commands", {}).values()):
            lines = (line.strip() for line in (each.help or "").splitlines())
            found |= dict.fromkeys(line for line in lines if line.startswith("hedgectl "))
    return [line for line in found if not any(line.startswith(far) or far in line for far in NOT_HERE)]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name, made by hedgectl itself."""
    there = tmp_path_factory.mktemp("examples")
    run = there / "bin" / "hedgectl"
    run.parent.mkdir()
    run.write_text(f'#!/bin/sh\nexec {sys.executable} -m hedgectl "$@"\n')
    run.chmod(0o755)
    (there / "logs").mkdir()
    for name in ("gateway.jsonl.gz", "today.jsonl.gz", "events.jsonl.gz", "logs/1.jsonl.gz"):
        shutil.copy(DEMO, there / name)
    (there / "today.jsonl").write_bytes(gzip.decompress(DEMO.read_bytes()))
    (there / "metrics.txt").write_text(
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="4096",enable_prefix_caching="True"} 1.0\n'
    )
    for made in ("staging.toml", "hedgectl.toml"):
        (there / made).write_text("")
    shell(there, "hedgectl ingest gateway.jsonl.gz --db hedgectl.duckdb -q")
    shell(there, "hedgectl recommend gateway.jsonl.gz -o json -q > policy.json")
    policy = json.loads((there / "policy.json").read_text())
    for scope in policy["policies"]:
        scope["experiment"] = {"kind": "switchback", "block": "30m", "seed": 1}
    (there / "policy.json").write_text(json.dumps(policy))
    for copy in ("old.json", "new.json"):
        shutil.copy(there / "policy.json", there / copy)
    (there / "state").mkdir()
    (there / "engines").mkdir()
    (there / "engines" / "hedgectl.toml").write_text("[engine]\nconfirmed = true\nmax_running_requests = 64\n")
    for name in ("gateway.jsonl.gz", "policy.json", "hedgectl.duckdb"):
        shutil.copy(there / name, there / "engines")
    return there


def shell(there: Path, line: str) -> subprocess.CompletedProcess[str]:
    wrapper = next(up / "bin" for up in (there, there.parent) if (up / "bin").is_dir())
    path = f"{wrapper}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(SAMPLES.parent)}
    return subprocess.run(
        line, shell=True, cwd=there, env=env, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("example", examples())
def test_an_example_of_the_help_runs(example: str, machine: Path) -> None:
    line = example
    for far, near in MOVED.items():
        line = line.replace(far, near)
    if "--join" in line:
        gateway, engine = sorted(SAMPLES.joinpath("joined").glob("*.jsonl*"), reverse=True)
        line = line.replace("gateway.jsonl.gz", str(gateway)).replace("engine-spans.jsonl.gz", str(engine))
        line = line.replace("hedgectl.duckdb", "joined.duckdb")
    # a replay needs the word of whoever knows the engines, and no example may write over the policy that others read
    apart = line.startswith(("hedgectl simulate", "hedgectl verify"))
    done = shell(machine / "engines" if apart else machine, line)
    expected = 3 if line.startswith(NOT_ENOUGH) else 0
    assert done.returncode == expected, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout or done.stderr or ">" in line or "-O" in line


def test_the_examples_are_found() -> None:
    assert len(examples()) > 30
