"""The JSON Schemas (2020-12) of the documents that hedgectl prints, one file a kind."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from hedgectl.errors import UsageError

_FOLDER = Path(__file__).resolve().parent


def kinds() -> list[str]:
    """Names of all documents, e.g. ``policy.v1``."""
    return sorted(p.name.removesuffix(".json") for p in _FOLDER.glob("*.json"))


def load(kind: str) -> dict[str, Any]:
    """The schema of ``kind`` (``policy`` or ``policy.v1``). Raises UsageError for an unknown kind."""
    for name in (kind, f"{kind}.v1"):
        path = _FOLDER / f"{name}.json"
        if name in kinds() and path.is_file():
            loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return loaded
    near = difflib.get_close_matches(kind, [k.split(".")[0] for k in kinds()], n=1)
    raise UsageError(
        f"no document named {kind}",
        hint=f"did you mean {near[0]}?" if near else f"there are: {', '.join(kinds())}",
    )
