"""python-dotenv and sh read the emitted environment file as the same texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from targets_real import POLICIES, document, hedging, run, system, write

from hedgectl import policy

pytestmark = pytest.mark.real

NAMES = [
    "plain",
    "with space",
    "it's",
    'say "hi"',
    "back\\slash \\n",
    "$HOME",
    "${HOME}",
    "`id`",
    "$(id)",
    "a#b #c",
    "é🙂",
    "=x",
]
READ = "import dotenv, json, sys; print(json.dumps(dotenv.dotenv_values(sys.argv[1])))"


def both_ways(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """All variables of a file, as dotenv and as sh read them."""
    by_dotenv = run(system("HEDGECTL_DOTENV_PYTHON"), "-c", READ, path)
    assert (by_dotenv.returncode, by_dotenv.stderr) == (0, "")
    by_sh = run("env", "-i", "sh", "-c", f'set -a; . "{path}"; /usr/bin/env -0')
    assert (by_sh.returncode, by_sh.stderr) == (0, "")
    pairs = (pair.partition("=") for pair in by_sh.stdout.split("\0"))
    return json.loads(by_dotenv.stdout), {name: value for name, _, value in pairs if name.startswith("HEDGE")}


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str, tmp_path: Path) -> None:
    dotenv, sh = both_ways(write(document(hedging(scope=policy.Scope(name))), "env", tmp_path / "hedge.env"))
    assert dotenv == sh
    assert sh["HEDGE_MODEL"] == name or "%" in sh["HEDGE_MODEL"]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_value(name: str, tmp_path: Path) -> None:
    dotenv, sh = both_ways(write(POLICIES[name], "env", tmp_path / "hedge.env"))
    assert dotenv == sh
    assert "HEDGE_ENABLED" in sh
