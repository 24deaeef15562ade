"""Each sample, cut, split, reordered, re-encoded, put into envelopes and read again: all is accounted for, and the rows are those of the clean one.

The rows of a variant are compared with those of the clean samples of its format, without what only says where they stood. Which few of the
transformations a sample undergoes is drawn from its name, so that a failure can be repeated; the fuzz in ``real`` draws others each time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from format_rows import read_text, samples
from log_variants import Variant, drawn

from hedgectl import store
from hedgectl.formats.catalogue import load_all
from hedgectl.ingest import ingest

FORMATS = [name for name in load_all() if samples(name)]
MAX_BYTES = 60_000
KEYS = ("accepted", "duplicates", "not_requests", "rejected")


def rows_by_file(opened: store.Store) -> dict[int, set[tuple[Any, ...]]]:
    """Rows of each file without their place; of requests without an id the made-up one is left out."""
    found: dict[int, set[tuple[Any, ...]]] = {}
    for text in (
        "SELECT file_id, * EXCLUDE (file_id, line, record, content_hash) REPLACE (CASE WHEN request_id[1] <> '#' THEN request_id END AS request_id) FROM attempt",
        "SELECT file_id, turn_id, tool, arrival_ns, e2e_ns, role FROM tool_span",
    ):
        for file_id, *row in opened.con.execute(text).fetchall():
            found.setdefault(file_id, set()).add(tuple(row))
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_a_sample_survives_what_happens_to_logs(name: str, tmp_path: Path) -> None:
    variants: dict[str, Variant] = {}
    for path in samples(name):
        if path.stat().st_size > MAX_BYTES:
            continue
        data = read_text(path).encode()
        (tmp_path / f"0 {path.name}").write_bytes(data)
        for variant in drawn(data, seed=f"{name}/{path.name}", count=2):
            label = f"1 {variant.label} {path.name}"
            variants[label] = variant
            for number, part in enumerate(variant.parts):
                (tmp_path / f"{label} {number}").write_bytes(part)
    with store.connect(None, memory_limit="512MB") as opened:
        document = ingest(opened, [str(tmp_path)], join=True)
        ids = dict(opened.con.execute("SELECT path, file_id FROM ingested_file").fetchall())
        rows = rows_by_file(opened)
    files = {Path(f["path"]).name: f for f in document["files"]}
    for file in files.values():
        assert file["lines"] == sum(file[key] for key in KEYS), file
        assert file["format"] in (name, None), file
    known = set().union(
        *(rows.get(ids[f["path"]], set()) for label, f in files.items() if label[0] == "0" and f["path"] in ids)
    )
    for label, variant in variants.items():
        parts = [files[f"{label} {number}"] for number in range(len(variant.parts))]
        whole = files["0 " + label.rpartition(" ")[2]]
        used, wanted = (sum(f["accepted"] + f["duplicates"] for f in listed) for listed in (parts, [whole]))
        if not variant.same_rows(name):
            continue
        if variant.lossless:
            assert used == wanted, (label, parts)
            assert sum(f["rejected"] for f in parts) == whole["rejected"], (label, parts)
        else:
            assert used <= wanted, (label, parts)
        strange = set().union(*(rows.get(ids.get(f["path"], -1), set()) for f in parts)) - known
        assert not strange, (label, strange)
