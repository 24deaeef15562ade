"""The stage of one batch -> the tables, inside a transaction of the caller; repetitions are left out and counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hedgectl import sql
from hedgectl.formats.catalogue import Format
from hedgectl.ingest.counts import SLOT_BITS, Counts
from hedgectl.ingest.stage import Staged

if TYPE_CHECKING:
    import duckdb


_DAY_NS = 86_400_000_000_000


def merge(
    con: duckdb.DuckDBPyConnection, staged: Staged, files: list[int], counts: dict[int, Counts], notes: Counter[str]
) -> dict[int, int]:
    """Moves all staged rows; ``files`` gives the file_id of each slot. Returns duplicates by slot.

    ``counts`` loses what turned out to be a duplicate; ``notes`` gains the codes of the formats and ``id_reused``.
    """
    duplicates: dict[int, int] = {}
    for name, table in staged.tables.items():
        fmt = staged.formats[name]
        con.execute(f"CREATE OR REPLACE TEMP VIEW staged AS FROM stage.template UNION ALL BY NAME FROM stage.{table}")
        if _has_suspects(con, fmt):
            con.execute(sql.text("ingest/keyed"))
            con.execute(sql.text("ingest/repeated"), {"format": fmt.name})
            _count_repeated(con, counts, duplicates)
            ((reused,),) = con.execute(sql.text("ingest/reused"), {"format": fmt.name}).fetchall()
            if reused:
                notes["id_reused"] += reused
        else:
            con.execute(sql.text("ingest/none_repeated"))
        con.execute(sql.text("ingest/merge_attempts"), _merge_values(fmt, files))
        con.execute(sql.text("ingest/merge_tools"), {"format": fmt.name, "files": files})
        for code, number in con.execute(sql.text("ingest/staged_notes")).fetchall():
            notes[code] += number
    _rejects(con, files, counts)
    return duplicates


def _merge_values(fmt: Format, files: list[int]) -> dict[str, Any]:
    return {"format": fmt.name, "observer": fmt.observer, "resolution": fmt.resolution_ns, "files": files}


def _has_suspects(con: duckdb.DuckDBPyConnection, fmt: Format) -> bool:
    """Whether an id of the batch stands in it twice or was read before: only then rows have to be compared."""
    ((low, high, timeless),) = con.execute(sql.text("ingest/span")).fetchall()
    if low is None and not timeless:
        return False
    # rows without a time: no bound says where the others are
    bounds = {"low": 0, "high": -1} if low is None else {"low": low - _DAY_NS, "high": high + _DAY_NS}
    values = {"format": fmt.name, "timeless": timeless, **bounds}
    ((found,),) = con.execute(sql.text("ingest/suspect"), values).fetchall()
    return bool(found)


def _count_repeated(con: duckdb.DuckDBPyConnection, counts: dict[int, Counts], duplicates: dict[int, int]) -> None:
    opened = [(slot << SLOT_BITS) + c.open_line for slot, c in counts.items() if c.open_line is not None]
    for slot, number, in_open in con.execute(sql.text("ingest/repeated_by_file"), {"open": opened}).fetchall():
        duplicates[slot] = duplicates.get(slot, 0) + number
        counts[slot].accepted -= number
        counts[slot].open_counts[0] -= in_open
        counts[slot].open_counts[1] += in_open


def _rejects(con: duckdb.DuckDBPyConnection, files: list[int], counts: dict[int, Counts]) -> None:
    rows = [(files[slot], *reject) for slot, c in counts.items() for reject in c.rejects]
    if rows:
        columns = list(zip(*rows, strict=True))
        con.execute(
            sql.text("ingest/rejects"),
            {
                "files": list(columns[0]),
                "lines": list(columns[1]),
                "reasons": list(columns[2]),
                "texts": list(columns[3]),
            },
        )
