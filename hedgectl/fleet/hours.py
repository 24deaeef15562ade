"""What each hour of a folder holds once repetitions across its batches are found: one task an hour, kept until its parts change."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgectl import sql, store
from hedgectl.fleet.load import cut, fetched, hour_counts, hour_name
from hedgectl.fleet.manifest import Shelf
from hedgectl.place import Place, place

_COVERED = (
    "e2e", "ttft", "queue", "prefill", "decode", "tool_wait", "replica", "prompt_tokens", "completion_tokens", "cost",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hour:
    """The parts of one hour, and of the hour before (whose requests may go on into it)."""

    folder: str
    hour: str
    parts: tuple[str, ...]
    before: tuple[str, ...]
    cuts: Mapping[str, Mapping[int, int]]
    rows: int
    memory_limit: str | None

    @property
    def key(self) -> str:
        """Changes whenever the answer may."""
        told = repr((self.parts, self.before, sorted((k, sorted(v.items())) for k, v in self.cuts.items())))
        return hashlib.sha256(told.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Counted:
    """What one hour holds. ``duplicates``: repeated records by file_id; ``observed``: rows that have each value."""

    key: str = ""
    attempts: int = 0
    requests: int = 0
    reused: int = 0
    crossing: int = 0  # requests and agent turns with attempts of several scopes
    first_ns: int | None = None
    last_ns: int | None = None
    observers: tuple[str, ...] = ()
    observed: dict[str, int] = field(default_factory=dict)
    duplicates: dict[int, int] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def of(where: Place, shelf: Shelf, memory_limit: str | None) -> list[Hour]:
    """All hours of the batches that count, in order."""
    cuts = shelf.cuts()
    parts: dict[str, list[tuple[str, str, int]]] = {}
    for manifest in shelf.manifests:
        for part in manifest.parts:
            parts.setdefault(part.hour or "none", []).append((part.name, manifest.key, part.rows))
    found = []
    for hour, held in sorted(parts.items()):
        earlier = parts.get(_hour_before(hour), [])
        found.append(
            Hour(
                where.url,
                hour,
                tuple(sorted(name for name, _, _ in held)),
                tuple(sorted(name for name, _, _ in earlier)),
                {name: cuts[key] for name, key, _ in held if key in cuts},
                sum(rows for _, _, rows in (*held, *earlier)),
                memory_limit,
            )
        )
    return found


def _hour_before(hour: str) -> str:
    from datetime import datetime, timedelta

    if hour == "none":
        return ""
    return (datetime.fromisoformat(f"{hour}:00") - timedelta(hours=1)).strftime("%Y-%m-%dT%H")


def shares(every: Sequence[Hour], tasks: int) -> list[tuple[Hour, ...]]:
    """The hours as the work of about so many tasks: opening a database for each hour would cost as much as the hour itself."""
    return [tuple(every[first::tasks]) for first in range(min(tasks, len(every)))]


def count(every: Sequence[Hour]) -> list[Counted]:
    """The work of one task: finds the repetitions of each hour and counts the rest; the answers are kept in the folder."""
    with store.connect(None, memory_limit=every[0].memory_limit) as memory, store.explained(every[0].folder):
        return [_count(memory.con, hour) for hour in every]


def _count(con: Any, hour: Hour) -> Counted:
    where = place(hour.folder)
    with fetched(where, hour.parts) as here, fetched(where, hour.before) as earlier:
        cut(con, here, hour.cuts)
        con.execute(sql.text("fleet/hour_rows"), {"files": here.files})
        con.execute(sql.text("fleet/again"))
        con.execute(sql.text("fleet/repeated"))
        con.execute(sql.text("fleet/hour_before"), {"files": earlier.files or here.files, "any": bool(earlier.files)})
        found = con.execute(sql.text("fleet/hour_counts"))
        row = dict(zip((c[0] for c in found.description or []), found.fetchall()[0], strict=True))
        duplicates = {int(f): int(n) for f, n in con.execute(sql.text("fleet/hour_repeated")).fetchall()}
    observed = {name: int(row.pop(name)) for name in _COVERED}
    observers = tuple(row.pop("observers"))
    counted = Counted(hour.key, observers=observers, observed=observed, duplicates=duplicates, **row)
    where.write(hour_name(hour.hour), json.dumps(counted.to_document(), separators=(",", ":")).encode())
    return counted


def kept(where: Place, hours: Sequence[Hour]) -> dict[str, Counted]:
    """The answers that are there and whole, fresh or not, by hour."""
    names = set(where.names("hours/"))
    found = {}
    for hour in hours:
        raw = hour_counts(where, hour.hour) if hour_name(hour.hour) in names else None
        if raw is None:
            continue
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):  # as damaged as what is no JSON
            raw["duplicates"] = {int(f): n for f, n in raw["duplicates"].items()}
            found[hour.hour] = Counted(**{**raw, "observers": tuple(raw["observers"])})
    return found


def covered(counted: Sequence[Counted]) -> dict[str, float | None]:
    """Share of the attempts that have each value, rounded to 4 digits; None without attempts."""
    attempts = sum(c.attempts for c in counted)
    return {n: round(sum(c.observed[n] for c in counted) / attempts, 4) if attempts else None for n in _COVERED}
