"""The README tells the truth: its sessions are run, its tables are those of the program.

``HEDGECTL_UPDATE_README=1 pytest tests/test_readme.py`` writes the outputs and tables anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
UPDATE = os.environ.get("HEDGECTL_UPDATE_README") == "1"
SESSION = re.compile(r"```console\n(.*?)```", re.DOTALL)


def sessions() -> list[str]:
    return SESSION.findall(README.read_text(encoding="utf-8"))


def steps(session: str) -> Iterator[tuple[str, str]]:
    """(command, expected output) pairs of one session; a line ``...`` stands for lines that are left out."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = command[:-1] + more.removeprefix("> ")
        yield command, output


def matches(expected: str, got: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)]
    return re.fullmatch("(.*\n)?".join(parts), got, re.DOTALL) is not None


def run(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a reader of the README is: a clone, seen from its root."""
    (tmp_path / "sample_logs").symlink_to(ROOT / "sample_logs")
    return tmp_path


@pytest.mark.parametrize("number", range(len(sessions())))
def test_sessions_print_what_the_readme_shows(number: int, folder: Path) -> None:
    session = sessions()[number]
    fresh = []
    for command, expected in steps(session):
        got = run(command, folder)
        if UPDATE and "...\n" not in expected:
            fresh.append(f"$ {command}\n{got}")
            continue
        assert matches(expected, got), f"$ {command}\n{got}"
        fresh.append(f"$ {command}\n{expected}")
    if UPDATE:
        README.write_text(README.read_text(encoding="utf-8").replace(session, "".join(fresh)), encoding="utf-8")


def table(name: str) -> str:
    """A table of the README as the program prints it."""
    command = {
        "formats": "hedgectl formats -o md",
        "targets": "hedgectl emit --list -o md",
    }[name]
    return run(command, ROOT)


@pytest.mark.parametrize("name", ["formats", "targets"])
def test_tables_are_those_of_the_program(name: str) -> None:
    text = README.read_text(encoding="utf-8")
    start, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
    assert start in text
    before, _, rest = text.partition(start)
    shown, _, after = rest.partition(end)
    if UPDATE:
        README.write_text(before + start + table(name) + end + after, encoding="utf-8")
        return
    assert shown == table(name), "HEDGECTL_UPDATE_README=1 pytest tests/test_readme.py writes it anew"


def test_exit_codes_of_the_readme_are_those_of_the_program() -> None:
    from hedgectl.errors import ExitCode

    listed = {int(n) for n in re.findall(r"^\| (\d+) \|", README.read_text(encoding="utf-8"), re.MULTILINE)}
    assert listed == {int(code) for code in ExitCode}


def test_set_up_is_two_commands() -> None:
    section = README.read_text(encoding="utf-8").split("<!-- set-up -->")[1].split("<!-- end -->")[0]
    assert len(re.findall(r"```sh\n", section)) == 2
