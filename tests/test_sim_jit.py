"""The kernel without a compiler, without a place for compiled code, and on a naive machine: same numbers, and it says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from sim_cases import random_case

from hedgectl.sim.run import run

PLAIN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from sim_cases import random_case
from hedgectl.sim import jit
from hedgectl.sim.run import run
ends = [run(*random_case(seed)).request["end"].tolist() for seed in (3, 4)]
print(json.dumps({"compiled": jit.COMPILED, "notes": [n["code"] for n in jit.notes()], "ends": ends}))
"""
CACHE = "from hedgectl.sim import jit; print(jit.CACHE); print([n['code'] for n in jit.notes()])"


def python(code: str, *args: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *args], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_without_numba_the_same_source_gives_the_same_times() -> None:
    got = json.loads(python(PLAIN, str(Path(__file__).parent), HEDGECTL_NO_NUMBA="1"))
    assert got["compiled"] is False
    assert got["notes"] == ["kernel_uncompiled"]
    for seed, ends in zip((3, 4), got["ends"], strict=True):
        np.testing.assert_allclose(ends, run(*random_case(seed)).request["end"], rtol=0, atol=1e-9)


def test_compiled_code_goes_where_it_can_be_written(tmp_path: Path) -> None:
    # a file where a folder should be cannot be written by anybody, not even by root
    blocked = tmp_path / "file"
    blocked.write_text("")
    state = tmp_path / "state"
    state.mkdir()
    out = python(CACHE, NUMBA_CACHE_DIR=str(blocked), XDG_CACHE_HOME=str(blocked), XDG_STATE_HOME=str(state))
    assert out.splitlines()[0].startswith(str(state))


def test_nowhere_to_write_is_said(tmp_path: Path) -> None:
    blocked = str(tmp_path / "file")
    Path(blocked).write_text("")
    code = f"import tempfile; tempfile.gettempdir = lambda: {blocked!r}\n" + CACHE
    out = python(code, NUMBA_CACHE_DIR=blocked, XDG_CACHE_HOME=blocked, XDG_STATE_HOME=blocked)
    assert out.splitlines() == ["None", "['kernel_uncached']"]


WARM = """
import os, pathlib
from hedgectl.sim import jit
from hedgectl.sim.kernel import drain
own = pathlib.Path(drain.stats.cache_path)
def kept(folder, age):
    folder.mkdir(parents=True, exist_ok=True)
    code = folder / "kernel.drain-1.py311.1.nbc"
    code.write_bytes(b"")
    at = os.stat(drain.py_func.__code__.co_filename).st_mtime - age
    os.utime(code, (at, at))
    return jit.warm(drain)
print(jit.warm(drain), kept(own.with_name("another"), 0), kept(own, 60), kept(own, -60))
"""


def test_only_code_of_this_installation_and_this_source_spares_the_compiling(tmp_path: Path) -> None:
    assert python(WARM, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["False", "False", "False", "True"]


def test_importing_the_command_line_loads_no_compiler() -> None:
    code = "import sys, hedgectl.cli; print([m for m in ('numba', 'numpy') if m in sys.modules])"
    assert python(code).strip() == "[]"
