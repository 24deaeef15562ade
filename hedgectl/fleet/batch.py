"""The work of one task: these files -> canonical rows as Parquet parts, ledger entries and counts. What a database would do too."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from hedgectl import sql, store
from hedgectl.fleet.load import digest
from hedgectl.fleet.manifest import Manifest, Part, Segment
from hedgectl.fleet.plan import Batch
from hedgectl.ingest import read
from hedgectl.ingest.document import File
from hedgectl.ingest.ledger import Entry, Ledger
from hedgectl.place import Place, place

_NULL = "__HIVE_DEFAULT_PARTITION__"  # as every reader of such folders takes it
_LONGEST, _KEPT = 200, 120
_BY = ("model", "route", "pool", "hour")


@dataclass(frozen=True, slots=True)
class Shaped:
    """What became of a batch. ``manifest`` is None if there was nothing new; until it is committed nothing counts."""

    manifest: Manifest | None
    files: list[File]
    notes: Counter[str]


def shape(batch: Batch) -> Shaped:
    """Reads the files of a batch into a database in memory and writes what came of it into the folder.

    Whoever does it again writes the same: parts are named by their content.
    """
    known = {entry.file_id: (entry, key) for entry, key in batch.known}
    where = place(batch.folder)
    with store.connect(None, memory_limit=batch.reading.memory_limit) as memory, store.explained(batch.folder):
        Ledger(memory.con).write(memory.con, [entry for entry, _ in known.values()])
        files, notes = read(
            memory,
            batch.paths,
            chosen=batch.reading.chosen,
            tz=batch.reading.tz,
            join=batch.reading.join,
            unit=batch.reading.unit,
            file_ids=batch.file_ids,
        )
        segments = tuple(
            _segment(entry, known.get(entry.file_id))
            for entry in Ledger(memory.con).entries()
            if entry.file_id not in known or entry != known[entry.file_id][0]
        )
        if not segments:
            return Shaped(None, files, notes)
        with where.workspace() as folder:
            parts = _rows(memory, where, folder)
            spans = _table(memory, where, folder, "tool_span", "spans")
            rejects = _table(memory, where, folder, "reject", "rejects")
        formats = {
            name: (o, low, high) for name, o, low, high in memory.con.execute(sql.text("fleet/formats")).fetchall()
        }
    told = [
        (s.entry.file_id, s.entry.bytes_read, s.entry.open_bytes, s.entry.tail_fingerprint, s.after) for s in segments
    ]
    key = hashlib.sha256(repr((sorted(told), [p.name for p in parts], spans, rejects)).encode()).hexdigest()[:32]
    return Shaped(Manifest(key, segments, parts, spans, rejects, formats), files, notes)


def _segment(entry: Entry, before: tuple[Entry, str] | None) -> Segment:
    if before is None:
        return Segment(entry)
    was, key = before
    unfinished = any(was.open_counts) or was.open_bytes
    return Segment(entry, key, was.last_line if unfinished else None)


def _rows(memory: store.Store, where: Place, folder: Path) -> tuple[Part, ...]:
    """Writes the attempts, one part a model, route, pool and hour."""
    con, root = memory.con, folder / "rows"
    ((*known,),) = con.execute(sql.text("fleet/known")).fetchall()
    # a log knows a third of the columns; the others would cost as much to write as these
    columns = [n for n, rows in zip(con.table("attempt").columns, known, strict=True) if rows or n in _BY]
    con.execute(sql.text("fleet/scopes"))
    scopes = con.execute(sql.text("fleet/scope_list")).fetchall()
    if not scopes:
        return ()
    parted = con.sql(sql.text("fleet/parted")).select(*columns, "hour", "part")
    if len(scopes) == 1:
        # spreading rows over files takes as long as writing them
        (root / "part=0").mkdir(parents=True)
        parted.select(*columns, "hour").write_parquet(str(root / "part=0" / "0.parquet"), compression="zstd")
    else:
        parted.write_parquet(str(root), compression="zstd", partition_by=["part"])
    made = sorted(root.rglob("*.parquet"))
    counted = dict(con.execute(sql.text("fleet/part_rows"), {"files": [str(f) for f in made]}).fetchall())
    parts = []
    for file in made:
        scope = dict(zip(_BY, scopes[int(file.parent.name.removeprefix("part="))], strict=True))
        under = "/".join(f"{k}={_NULL if v is None else _folder(v)}" for k, v in scope.items())
        name, rows, size = f"rows/{under}/{digest(file)}.parquet", int(counted[str(file)]), file.stat().st_size
        where.add(name, file)
        parts.append(Part(name, rows, **scope, bytes=size))
    return tuple(sorted(parts, key=lambda part: part.name))


def _folder(value: str) -> str:
    """The name of a folder for a value. File systems take 255 bytes, and a letter can be nine; the part's own entry has it whole."""
    name = quote(value, safe="")
    if len(name) > _LONGEST:
        name = f"{name[:_KEPT]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return name


def _table(memory: store.Store, where: Place, folder: Path, table: str, under: str) -> str | None:
    """Writes a small table as one part; None if it is empty."""
    relation = memory.con.table(table)
    if not relation.limit(1).fetchall():
        return None
    file = folder / f"{table}.parquet"
    relation.write_parquet(str(file), compression="zstd")
    name = f"{under}/{digest(file)}.parquet"
    where.add(name, file)
    return name
