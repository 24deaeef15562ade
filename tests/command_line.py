"""The command line in this process, and plain rows for it to read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hedgectl.cli import main

Ran = tuple[int, str, str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """The command line in this process: exit code, stdout, stderr. Fails on what a user must never see."""
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> Ran:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(list(argv))
        sys.stdout.flush()
        out, err = capfd.readouterr()
        assert "fault of hedgectl" not in err, err
        assert "Traceback" not in err, err
        return int(stop.value.code or 0), out, err

    return run


def row(i: int, **more: Any) -> str:
    known = {"ts": f"2026-03-02T08:{i // 60:02d}:{i % 60:02d}Z", "request_id": f"h{i}", "replica": "e1", "model": "m"}
    return json.dumps({**known, "status": 200, "stream": True, "ttft_ms": 150 + i, "e2e_ms": 900 + 3 * i, **more})


def write(folder: Path, *rows: str, name: str = "log.jsonl") -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in rows))
    return name
