"""A folder of parts -> the tables of a database, so that every analysis reads the one as it reads the other."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgectl import sql, store
from hedgectl.decompose import SLACK_NS, Selection, limits
from hedgectl.errors import InputError
from hedgectl.fleet.manifest import Part, Shelf, damaged, shelf
from hedgectl.ingest.ledger import Ledger
from hedgectl.place import Place, place

_AT_ONCE = 16
_PARTS = 512  # fetched and loaded together
_HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """Parts as files on this machine, by name."""

    file_of: Mapping[str, str]

    @property
    def files(self) -> list[str]:
        return list(self.file_of.values())


@contextlib.contextmanager
def fetched(where: Place, names: Sequence[str]) -> Iterator[Fetched]:
    """Parts on this machine for the length of the block; several are fetched at once."""
    with tempfile.TemporaryDirectory(prefix="hedgectl-") as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        files = pool.map(lambda name: str(where.local(name, Path(folder))), names)
        here = Fetched(dict(zip(names, files, strict=True)))
        try:
            yield here
        except store.sql_error():
            for name, file in here.file_of.items():
                if digest(Path(file)) not in name:
                    raise damaged(where, name) from None
            raise


def digest(file: Path) -> str:
    """What names a part: a fingerprint of its bytes."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Scope:
    """One model (None = rows without one), on one route if ``route`` is not None."""

    model: str | None
    route: str | None

    def holds(self, part: Part) -> bool:
        return part.model == self.model and (self.route is None or part.route == self.route)


def load(url: str, into: store.Store, selection: Selection, only: Scope | None = None) -> None:
    """Fills the empty tables of ``into`` with what a folder holds for a selection's window, each record once.

    More than the window is read (attempts beside it may belong to a request inside), and the newest hour always. ``only``
    leaves other scopes out, but for attempts that belong to its requests. Raises InputError if there is no batch in the folder.
    """
    where = place(url)
    found = shelf(where)
    if not any(m.parts for m in found.manifests):
        raise InputError("the folder holds no request", where=url, hint=f"hedgectl ingest LOG... --out {url}")
    con, cuts = into.con, found.cuts()
    wanted = [(p, m.key) for m in found.manifests for p in m.parts if _wanted(p, found, selection)]
    own = {p.name: key for p, key in wanted if only is None or only.holds(p)}
    with store.explained(where.url):
        Ledger(con).write(con, [entry for entry, _ in found.entries().values()])
        _insert(con, where, "fleet/load_attempt", own, cuts)
        if only is not None and _crossing(where, {p.hour for p, _ in wanted}):
            _insert(con, where, "fleet/load_related", {p.name: key for p, key in wanted if p.name not in own}, cuts)
        _insert(con, where, "fleet/load_tool_span", {m.spans: m.key for m in found.manifests if m.spans}, cuts)
        con.execute("CREATE OR REPLACE TEMP VIEW fleet_row AS FROM attempt")
        con.execute(sql.text("fleet/again"))
        con.execute(sql.text("fleet/repeated"))
        con.execute(sql.text("fleet/drop_repeated"))


def _crossing(where: Place, wanted: Collection[str | None]) -> bool:
    """Whether any request of these hours may have attempts of several scopes; an hour that is not counted may."""
    counted = (hour_counts(where, hour) for hour in wanted)
    return any(found is None or found.get("crossing", True) for found in counted)


def hour_counts(where: Place, hour: str | None) -> dict[str, Any] | None:
    """What is kept of an hour; None if that is not there or damaged: it is made of the parts, and the next ingest makes it anew."""
    try:
        found = json.loads(where.read(hour_name(hour)))
    except (InputError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def hour_name(hour: str | None) -> str:
    """The object that keeps what an hour holds."""
    return f"hours/{hour or 'none'}.json"


def cut(con: Any, here: Fetched, cuts: Mapping[str, Mapping[int, int]]) -> None:
    """Says which rows of which parts were replaced; ``cuts`` by part name: file_id -> last line that counts."""
    rows = [(here.file_of[part], f, line) for part, by_file in cuts.items() for f, line in by_file.items()]
    if not rows:
        con.execute(sql.text("fleet/stands_all"))
        return
    values = {"files": [r[0] for r in rows], "file_ids": [r[1] for r in rows], "lines": [r[2] for r in rows]}
    con.execute(sql.text("fleet/cut"), values)
    con.execute(sql.text("fleet/stands"))


def _insert(
    con: Any, where: Place, query: str, parts: Mapping[str, str], cuts: Mapping[str, Mapping[int, int]]
) -> None:
    names = sorted(parts)
    for first in range(0, len(names), _PARTS):
        some = names[first : first + _PARTS]
        with fetched(where, some) as here:
            cut(con, here, {name: cuts[parts[name]] for name in some if parts[name] in cuts})
            con.execute(sql.text(query), {"files": here.files})


def _wanted(part: Part, found: Shelf, selection: Selection) -> bool:
    """Whether an analysis of the selection looks at the part: then its answer is that of a database with all rows."""
    newest = found.newest_ns
    first, last = limits(selection, selection.as_of_ns if selection.as_of_ns is not None else newest)
    if part.hour is None:
        return True
    begin = _begin_ns(part.hour)
    end = begin + _HOUR_NS
    if newest is not None and begin <= newest < end:
        return True
    return (first is None or end > first - SLACK_NS) and (last is None or begin <= last + SLACK_NS)


def _begin_ns(hour: str) -> int:
    from datetime import UTC, datetime

    return int(datetime.fromisoformat(f"{hour}:00+00:00").astimezone(UTC).timestamp()) * 1_000_000_000
