"""Whatever is done to the bytes of a log: no traceback, every record accounted for, and what is whole is read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ingest_logs import counts, query, row

from hedgectl.errors import HedgectlError
from hedgectl.ingest import ingest
from hedgectl.store import connect

ROWS = [json.dumps(row(n, model="modèle " + "x" * (n % 5))) for n in range(12)]
NOISE = [
    "",
    "  ",
    "INFO started",
    '{"level":"info"}',
    '{"ts":',
    "[]",
    '{"x":NaN}',
    "\x00\x00",
    '[{"a":1},2]',
    '"text"',
    "}{",
    "\ud7ff",
]


def pack(text: str, encoding: str) -> bytes:
    data = text.encode(
        "utf-8-sig" if encoding == "bom" else "utf-16" if encoding == "utf16" else "utf-8", "surrogatepass"
    )
    if encoding == "crlf":
        data = data.replace(b"\n", b"\r\n")
    return gzip.compress(data) if encoding == "gzip" else data


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    order=st.permutations(range(len(ROWS))),
    noise=st.lists(st.tuples(st.integers(0, len(ROWS)), st.sampled_from(NOISE)), max_size=6),
    glue=st.sets(st.integers(0, len(ROWS) - 1), max_size=3),
    again=st.sets(st.integers(0, len(ROWS) - 1), max_size=3),
    encoding=st.sampled_from(["plain", "bom", "crlf", "utf16", "gzip"]),
    files=st.integers(1, 3),
)
def test_whole_records_are_read_whatever_stands_around_them(
    order: list[int], noise: list[tuple[int, str]], glue: set[int], again: set[int], encoding: str, files: int
) -> None:
    parts: list[str] = []
    for place, number in enumerate([*order, *sorted(again)]):
        parts.append(ROWS[number] + ("" if place in glue else "\n"))
    for place, text in noise:
        # not behind a glued record: there it would be part of its line
        if place == 0 or parts[place - 1].endswith("\n"):
            parts.insert(place, text + "\n")
    share = -(-len(parts) // files)
    with TemporaryDirectory() as folder, connect(None, memory_limit="512MB") as store:
        for number in range(files):
            body = "".join(parts[number * share : (number + 1) * share])
            Path(folder, f"{number}.log").write_bytes(pack(body, encoding))
        got = ingest(store, [folder], format="plain")
        total = counts(got["totals"])
        for file in got["files"]:
            counts(file)
        assert total[1] == len(ROWS)
        assert total[2] == len(again)
        kept = query(store, "SELECT request_id, model FROM attempt")
        assert dict(kept) == {f"q{n}": "modèle " + "x" * (n % 5) for n in range(len(ROWS))}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cuts=st.lists(st.integers(0, 1600), max_size=4),
    flips=st.lists(st.tuples(st.integers(0, 1600), st.integers(0, 255)), max_size=4),
    packed=st.booleans(),
    name=st.sampled_from(["json", "csv"]),
)
def test_damage_is_counted_never_a_traceback(
    cuts: list[int], flips: list[tuple[int, int]], packed: bool, name: str
) -> None:
    if name == "csv":
        rows = [row(n, model='a,"b') for n in range(12)]
        text = (
            ",".join(rows[0])
            + "\n"
            + "".join(",".join('"' + str(v).replace('"', '""') + '"' for v in r.values()) + "\n" for r in rows)
        )
    else:
        text = "\n".join(ROWS)
    data = bytearray(gzip.compress(text.encode(), mtime=0) if packed else text.encode())
    for place, value in flips:
        data[place % len(data)] = value
    for place in cuts:
        del data[place % len(data) : place % len(data) + 7]
    with TemporaryDirectory() as folder, connect(None, memory_limit="512MB") as store:
        log = Path(folder, "log")
        log.write_bytes(bytes(data))
        try:
            got = ingest(store, [str(log)], format="plain")
        except HedgectlError:
            return  # told, not a traceback
        assert counts(got["totals"])[1] <= 13
        assert query(store, "SELECT count(*) FROM attempt") == [(counts(got["totals"])[1],)]
