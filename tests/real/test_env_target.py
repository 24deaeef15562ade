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


def both_ways(path: Path, name: str) -> list[str | None]:
    python = system("HEDGECTL_DOTENV_PYTHON")
    by_dotenv = run(python, "-c", READ, path)
    assert (by_dotenv.returncode, by_dotenv.stderr) == (0, "")
    by_sh = run("sh", "-c", f'. "{path}"; printf %s "${name}"')
    assert (by_sh.returncode, by_sh.stderr) == (0, "")
    return [json.loads(by_dotenv.stdout).get(name), by_sh.stdout]


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str, tmp_path: Path) -> None:
    path = write(document(hedging(scope=policy.Scope(name))), "env", tmp_path / "hedge.env")
    dotenv, sh = both_ways(path, "HEDGE_MODEL")
    assert dotenv == sh
    assert sh == name or "%" in str(sh)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_value(name: str, tmp_path: Path) -> None:
    path = write(POLICIES[name], "env", tmp_path / "hedge.env")
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            dotenv, sh = both_ways(path, line.partition("=")[0])
            assert dotenv == sh
