"""Runs closed-form cases through the kernel: ``python -m hedgectl.sim.validate FILE [--requests N] [--seed N]``.

FILE is a JSON list of cases {"name", "params", "expected", "rel_tol", "tol_kind"?}. A case is found by its name and
takes any parameters; names that are not known are listed as not run. `tol_kind`: relative (default), "absolute",
"exact integer", "boolean". Below 4 M requests tolerances are three times as wide. Exit 0 if all that ran pass.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgectl.sim.closed_forms import Draw, Measure, measure_of
from hedgectl.sim.run import prepare

FULL = 4_000_000
AT_ONCE = 1_000_000  # requests in one replication; more would only need more memory
WIDER = 3.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case: what was measured (None: not run), what was expected, whether it is within the tolerance."""

    name: str
    measured: Any
    expected: Any
    difference: float | None
    tolerance: float
    passed: bool | None
    why: str = ""


def measured(measure: Measure, params: Any, requests: int, seed: int) -> Any:
    """Mean over replications of up to AT_ONCE requests; vectors and booleans are taken from one."""
    runs = max(1, round(requests / AT_ONCE))
    found = []
    for i in range(runs):
        n = min(requests, AT_ONCE)
        found.append(measure(params, Draw(np.random.default_rng([seed, i]), n, seed * 1000 + i)))
        if not isinstance(found[0], float):
            return found[0]
    return float(np.mean(found))


def judge(case: dict[str, Any], requests: int = AT_ONCE, seed: int = 1) -> Verdict:
    """Run one case of the file."""
    name, expected = str(case.get("name")), case.get("expected")
    measure = measure_of(name)
    tolerance = float(case.get("rel_tol", 0.0))
    if measure is None:
        return Verdict(name, None, expected, None, tolerance, None, "no engine states it")
    try:
        value = measured(measure, case.get("params", {}), requests, seed)
    except (KeyError, TypeError, ValueError) as error:
        return Verdict(name, None, expected, None, tolerance, False, f"{type(error).__name__}: {error}")
    if isinstance(value, bool):
        return Verdict(name, value, expected, None, 0.0, value == bool(expected))
    wide = 1.0 if requests >= FULL or case.get("tol_kind") == "absolute" else WIDER
    allowed = tolerance * wide
    a, b = np.asarray(value, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if a.shape != b.shape:
        return Verdict(name, value, expected, None, allowed, False, f"{a.size} values, {b.size} expected")
    off = np.abs(a - b)
    if case.get("tol_kind") not in ("absolute", "exact integer"):
        off = off / np.maximum(np.abs(b), 1e-300)
    difference = float(np.max(off, initial=0.0))
    return Verdict(name, value, expected, difference, allowed, bool(difference <= allowed))


def line(v: Verdict) -> str:
    """One line a case."""
    if v.passed is None:
        return f"not run  {v.name}: {v.why}"
    word = "ok      " if v.passed else "FAILED  "
    if v.why:
        return f"{word} {v.name}: {v.why}"
    if v.difference is None or isinstance(v.measured, list):
        return f"{word} {v.name}: measured {v.measured}, expected {v.expected}"
    return f"{word} {v.name}: measured {v.measured:.6g}, expected {v.expected:.6g}, off by {v.difference:.2%} of {v.tolerance:.2%}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m hedgectl.sim.validate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path, help="JSON list of cases")
    parser.add_argument("--requests", type=int, default=AT_ONCE, help="requests a case (default 1000000)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    try:
        cases = json.loads(given.file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        print(f"hedgectl.sim.validate: error: {given.file} cannot be read as JSON: {error}", file=sys.stderr)
        return 2
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases) or given.requests < 1:
        print(
            "hedgectl.sim.validate: error: the file must hold a list of cases, --requests at least 1", file=sys.stderr
        )
        return 2
    prepare(lambda text: print(text, file=sys.stderr))
    verdicts = []
    for case in cases:
        verdicts.append(judge(case, given.requests, given.seed))
        print(line(verdicts[-1]), flush=True)
    ran = [v for v in verdicts if v.passed is not None]
    failed = sum(not v.passed for v in ran)
    print(f"{len(ran) - failed} passed, {failed} failed, {len(verdicts) - len(ran)} not run")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
