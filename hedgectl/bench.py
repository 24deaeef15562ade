"""Timing of hedgectl against a bare tool that does the same work: the document bench.v1. Cases live in ``benchcases``."""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
from typing import Any

from hedgectl import benchcases
from hedgectl.errors import UsageError

_ROW = ("case", "unit", "ours", "bare", "ratio", "runs", "text")


def names() -> list[str]:
    """The cases, sorted: one a module of ``benchcases``."""
    return sorted(m.name for m in pkgutil.iter_modules(benchcases.__path__) if not m.name.startswith("_"))


def about(case: str) -> str:
    """What a case times: the first line of its module."""
    module = importlib.import_module(f"hedgectl.benchcases.{case}")
    return (module.__doc__ or "").strip().splitlines()[0]


def run(case: str, *, as_of: str | None = None, **options: Any) -> dict[str, Any]:
    """A bench.v1 document of one case; ``options`` are the keywords of its module's ``cases`` or ``run``.

    ``as_of`` is when (RFC 3339, UTC; the caller's clock). Raises UsageError for a case or option that is not there.
    """
    if case not in names():
        raise UsageError(f"no benchmark is called {case}", hint=f"there are: {', '.join(names())}")
    module = importlib.import_module(f"hedgectl.benchcases.{case}")
    try:
        rows = module.cases(**options) if hasattr(module, "cases") else [module.run(**options)]
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise UsageError(f"the benchmark {case} does not take that: {error}") from error
    return {
        "schema": "hedgectl/bench.v1",
        "as_of": as_of or "",
        "machine": {"cpus": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "cases": [_row(case, row) for row in rows],
        "notes": [],
    }


def _row(case: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row with the keys of the document; figures beside them go into its text."""
    more = ", ".join(
        f"{key} {value}" for key, value in row.items() if key not in _ROW and isinstance(value, int | float | str)
    )
    kept = {key: row[key] for key in _ROW if key in row}
    text = ", ".join(part for part in (kept.get("text"), more) if part)
    return {"case": case, "unit": "s", **kept, "text": text or None}
