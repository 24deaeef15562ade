"""Start-up: ``hedgectl --help`` against an interpreter that only imports typer and rich."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

_BARE = "import typer, rich"
_OURS = "from hedgectl.cli import main; main(['--help'])"


def run(*, runs: int = 15) -> dict[str, Any]:
    """The fastest of ``runs`` starts of either, taken in turns; a row of bench.v1 in seconds."""
    best = {"ours": float("inf"), "bare": float("inf")}
    for _ in range(runs):
        for name, code in (("bare", _BARE), ("ours", _OURS)):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
            best[name] = min(best[name], time.perf_counter() - started)
    return {
        "case": "hedgectl --help against python -c 'import typer, rich'",
        "unit": "s",
        "ours": best["ours"],
        "bare": best["bare"],
        "ratio": best["ours"] / best["bare"],
        "runs": runs,
    }
