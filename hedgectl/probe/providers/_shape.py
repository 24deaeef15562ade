"""Reading JSON whose shape is not ours to trust, and building endpoint URLs."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit, urlunsplit


def parse(payload: str | bytes) -> dict[str, Any]:
    """A JSON object. Raises ValueError for anything else."""
    value = json.loads(payload)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def table(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def first(value: Any) -> dict[str, Any]:
    """The first object of a list, else an empty one."""
    return table(value[0]) if isinstance(value, list) and value else {}


def count(value: Any) -> int | None:
    """A non-negative integer, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def total(*values: int | None) -> int | None:
    """Sum of the known ones; None if none is known."""
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def with_path(url: str, path: str, query: str | None = None) -> str:
    """The URL with another path (and query)."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query if query is None else query, ""))


def path_of(url: str) -> str:
    """The path without a trailing slash."""
    return urlsplit(url).path.rstrip("/")


def encode(body: dict[str, Any]) -> bytes:
    """Compact UTF-8 JSON."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
