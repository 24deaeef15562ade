"""Every format on disk, whatever it is: a sample, honest claims, golden rows, and rows that fit the canonical tables.

Nothing in here names a format: a new file in queries/formats is tested by being there.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from format_rows import Row, connection, read_text, rows, samples
from make_format_goldens import FOLDER, MAX_BYTES, storable

from hedgectl import schemas
from hedgectl.errors import UsageError
from hedgectl.formats import catalogue, columns, detect, mapping
from hedgectl.formats.document import formats_document
from hedgectl.formats.format import OBSERVERS
from hedgectl.formats.sample import sample_of

FORMATS = sorted(catalogue.load_all())
FILES = [(name, path) for name in FORMATS for path in samples(name)]
IDS = [f"{name}/{path.name}" for name, path in FILES]
EXTRA = {"line", "record", "kind", "reason", "note"}


@cache
def rows_of(name: str, path: Path) -> list[Row]:
    return rows(name, read_text(path))


def all_rows(name: str) -> list[Row]:
    return [r for path in samples(name) for r in rows_of(name, path)]


@pytest.mark.parametrize("name", FORMATS)
def test_has_a_sample_and_golden_rows(name: str) -> None:
    assert samples(name), f"sample_logs/{name}/ is empty"
    assert (FOLDER / f"{name}.json").is_file(), f"python tests/make_format_goldens.py {name}"


@pytest.mark.parametrize("name", FORMATS)
def test_claims_nothing_that_its_sample_does_not_show(name: str) -> None:
    seen = {column for r in all_rows(name) if r.get("kind", "attempt") == "attempt" for column in r}
    assert set(catalogue.get(name).observes) <= seen


@pytest.mark.parametrize("name", FORMATS)
def test_shows_nothing_that_it_does_not_claim(name: str) -> None:
    seen = {column for r in all_rows(name) if r.get("kind", "attempt") == "attempt" for column in r}
    plain = {column for column in seen if not column.endswith("_basis")}
    assert plain - EXTRA - {"weight", "resolution_ns", "observer"} <= set(catalogue.get(name).observes)


SHARED_NOTES = {
    "naive_time", "clock_skew", "cross_clock", "ttft_equals_e2e", "ttft_zero", "ttft_beyond_e2e", "ttft_unreadable", "component_out_of_range",
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_explains_its_notes(name: str) -> None:
    codes = {code for r in all_rows(name) for code in r.get("note", "").split(",") if code}
    assert codes <= SHARED_NOTES | catalogue.note_texts().keys()


@pytest.mark.parametrize("name", FORMATS)
def test_returns_columns_of_the_table_attempt_in_its_types(name: str) -> None:
    fmt = catalogue.get(name)
    con = connection()
    shape = "NULL::VARCHAR AS text" if fmt.input == "text" else "NULL::JSON AS j"
    con.execute(
        f"CREATE OR REPLACE TEMP VIEW raw AS SELECT NULL::BIGINT AS line, NULL::INTEGER AS record, {shape} WHERE false"
    )
    have = {n: t for n, t, *_ in con.execute(f"DESCRIBE ({fmt.select_sql})").fetchall()}
    wanted = {n: t for n, t, *_ in con.execute("DESCRIBE attempt").fetchall()}
    assert {"line", "record"} <= have.keys() <= EXTRA | set(columns.CANONICAL)
    # a NULL literal may come as any type; everything else must need no conversion
    assert {n: t for n, t in have.items() if n in wanted and t not in (wanted[n], "INTEGER", '"NULL"')} == {}


ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 200, 499, 2**63, 10**40, 0.1, -0.5, 1.5e300, 1e-320, "", "-", " ", "NaN", "inf", "true", "200", "1.5", "250ms", "1770000000",
    "2026-02-02T02:40:00Z", "2026-02-30 25:61:00", "9999-12-31T23:59:59Z", "-", "\u0000", "\U0001f999", "'; DROP TABLE attempt; --", "[", "{", "[]", "{}", '["a"]',
    [], [1], [None, {"name": "x"}], {}, {"a": 1}, {"status": {"code": 2}}, 1770000000, 1770000000.25, 1770000000123, "DC", "UT,URX",
)  # fmt: skip


def names_read(fmt: catalogue.Format) -> list[str]:
    """Keys that a format looks at, as far as its SQL shows them."""
    found = (
        re.findall(r'"([\w.:-]+)": (?:"|\{)', fmt.select_sql)
        + re.findall(r"'\$\.([\w]+)'", fmt.select_sql)
        + re.findall(r"'/([\w]+)'", fmt.select_sql)
    )
    return sorted({*found, *fmt.keys})


def odd_record(rng: random.Random, names: list[str], depth: int = 0) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name in rng.sample(names, min(len(names), rng.randint(0, 25))):
        record[name] = (
            odd_record(rng, names, depth + 1) if depth < 2 and rng.random() < 0.15 else rng.choice(ODD_VALUES)
        )
    return record


@pytest.mark.parametrize("name", FORMATS)
def test_no_record_breaks_it_and_none_vanishes(name: str) -> None:
    fmt = catalogue.get(name)
    rng = random.Random(name)
    if fmt.input == "text":
        pieces = [piece for path in samples(name) for piece in re.findall(r"\S+|\s+", read_text(path))[:400]]
        texts = ["".join(rng.choices(pieces, k=rng.randint(1, 40))).replace("\n", " ") or "x" for _ in range(400)]
        texts = [t if t.strip() else "x" for t in texts]
    else:
        names = names_read(fmt)
        texts = [json.dumps(odd_record(rng, names)) for _ in range(400)]
        # and the sample's own records with one value at a time made odd
        for path in samples(name):
            for record in sample_of(read_text(path).splitlines()).records[:40]:
                for key in record:
                    texts.append(json.dumps({**record, key: rng.choice(ODD_VALUES)}))
    found = rows(fmt, texts)
    assert {r["line"] for r in found} == set(range(1, len(texts) + 1))
    for r in found:
        if r.get("kind", "attempt") == "attempt":
            assert r["status"] in ("ok", "error", "censored")
            assert 0 <= r.get("e2e_ns", 0) <= 86_400_000_000_000
            # what another clock wrote stays as evidence, marked as such
            assert r.get("ttft_ns", 1) > 0 or r.get("note") == "clock_skew"
            assert r.get("ttft_ns", 0) <= r.get("e2e_ns", r.get("ttft_ns", 0))
            assert all(r.get(f"{c}_ns", 0) >= 0 for c in ("queue", "prefill", "decode", "tool_wait", "headers"))


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_requests_that_share_a_record_have_ids_of_their_own(name: str, path: Path) -> None:
    # reading makes an id of the place of the record: of requests that share one it would make a single request
    places = [
        (r["line"], r["record"])
        for r in rows_of(name, path)
        if r.get("kind", "attempt") == "attempt" and not {"request_id", "attempt_no", "cause"} & r.keys()
    ]
    assert len(places) == len(set(places))


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_golden_rows(name: str, path: Path) -> None:
    if path.stat().st_size > MAX_BYTES:
        return
    stored = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert [storable(r) for r in rows_of(name, path)] == stored[path.name]


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_rows_make_sense(name: str, path: Path) -> None:
    text = read_text(path)
    found = rows_of(name, path)
    sample = sample_of(text.splitlines())
    whole = len(sample.lines) if catalogue.get(name).input == "text" else len(sample.records)
    assert {r["line"] for r in found} == set(range(1, whole + 1)), "a record vanished"
    for r in found:
        if r.get("kind", "attempt") != "attempt":
            assert r.get("reason") or r["kind"] == "tool"
            continue
        assert r["status"] in ("ok", "error", "censored")
        assert r["observer"] in OBSERVERS
        assert r["status"] != "ok" or "error_kind" not in r
        e2e = r.get("e2e_ns")
        assert e2e is None or 0 <= e2e <= 86_400_000_000_000
        assert ("ttft_ns" in r) == ("ttft_basis" in r)
        assert r.get("ttft_ns", 1) > 0
        assert r.get("ttft_ns", 0) <= (e2e if e2e is not None else r.get("ttft_ns", 0))
        for part in ("queue", "prefill", "decode", "tool_wait"):
            assert (f"{part}_ns" in r) == (f"{part}_basis" in r)
            assert r.get(f"{part}_ns", 0) >= 0
        assert r.get("cause") in (None, "primary", "hedge", "retry")


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_is_recognised_as_itself(name: str, path: Path) -> None:
    found = detect.detect(read_text(path).splitlines()[:400], where=path.name)
    assert found.format.name == name
    assert found.why


@pytest.mark.parametrize(("name", "path"), [f for f in FILES if catalogue.get(f[0]).input == "json"])
def test_numbers_may_be_text(name: str, path: Path) -> None:
    """Databases, queues and spreadsheets hand numbers on in quotes."""
    records = sample_of(read_text(path).splitlines()).records
    bare, quoted = ([json.dumps(how(r)) for r in records] for how in (dict, _quoted))
    assert _untold(rows(name, quoted)) == _untold(rows(name, bare))


def _quoted(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _quoted(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_quoted(v) for v in value]
    return value if value is None or isinstance(value, bool | str) else json.dumps(value)


def _untold(found: list[Row]) -> list[str]:
    """Rows without the ids that are made of the content, where a run logs none."""
    made = re.compile(r"[0-9a-f]{12}-\d+")
    return sorted(str({k: v for k, v in r.items() if k != "request_id" or not made.fullmatch(str(v))}) for r in found)


def test_the_select_that_the_readme_shows_loses_no_record() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```sql\n(.*?)```", readme, re.DOTALL)
    example = replace(catalogue.get("openrouter"), select_sql=shown)
    rng = random.Random(1)
    odd = [json.dumps(odd_record(rng, ["call", "tries", "id", "sent", "done", "http"])) for _ in range(300)]
    tries = [{"sent": 1_790_000_003_000_000 + k, "done": 1_790_000_003_100_000, "http": 503 - 303 * k} for k in (0, 1)]
    found = rows(example, [*odd, json.dumps({"call": {"id": "o"}, "tries": tries})])
    assert {r["line"] for r in found} == set(range(1, 302))
    assert [(r["request_id"], r["attempt_no"], r["e2e_ns"], r["status"]) for r in found if r["line"] == 301] == [
        ("o", 0, 100_000_000, "error"),
        ("o", 1, 99_999_000, "ok"),
    ]


def test_document_is_valid_and_complete() -> None:
    document = formats_document()
    jsonschema.validate(document, schemas.load("formats"))
    assert [f["format"] for f in document["formats"]] == FORMATS
    assert all(f["traps"] and f["hint"] and f["samples"] for f in document["formats"])
    assert formats_document(FORMATS[0])["formats"] == [document["formats"][0]]


def test_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        catalogue.get("litelm_payload")
    assert "litellm_payload" in str(caught.value.hint)


# --- faulty catalogue files say where --------------------------------------------------------------------------------
HEADER = (
    "-- format: x\n-- title: t\n-- spec: s\n-- source: s\n-- input: json\n-- detect: a\n-- clock: c\n-- resolution: 1ms\n"
    "-- observer: client\n-- observes: e2e_ns,\n--   status\n"
)


def load(tmp_path: Path, text: str, suffix: str = ".sql") -> catalogue.Format:
    path = tmp_path / f"x{suffix}"
    path.write_text(text, encoding="utf-8")
    return catalogue._load_sql(path) if suffix == ".sql" else mapping.load(path, own=False)


def test_header_of_an_sql_format(tmp_path: Path) -> None:
    fmt = load(tmp_path, HEADER + "-- traps: one ; two\nSELECT 1")
    assert (fmt.name, fmt.observes, fmt.resolution_ns) == ("x", ("e2e_ns", "status"), 1_000_000)
    assert fmt.traps == ("one", "two")


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        ("-- title:", "-- titel:", ":2", "title"),
        ("-- clock: c\n", "", "x.sql", "clock"),
        ("-- clock: c", "-- title: c", ":7", "twice"),
        ("e2e_ns", "e2e_ms", "x.sql", "e2e_ns"),
        ("1ms", "1 week", "x.sql", "1 week"),
        ("client", "clients", "x.sql", "client"),
        ("input: json", "input: jsonl", "x.sql", "json"),
        ("format: x", "format: y", "x.sql", "x.sql"),
        ("-- clock: c", "-- clock: c\n-- notes: no words", "x.sql", "code = words"),
    ],
)
def test_faulty_header_names_file_and_line(tmp_path: Path, old: str, new: str, where: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, HEADER.replace(old, new, 1) + "SELECT 1")
    assert where in str(caught.value.where)
    assert says in f"{caught.value.what} {caught.value.hint}"


def test_catalogue_loads_without_heavy_libraries() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from hedgectl.formats import document; document.formats_document(); "
        "print([m for m in ('duckdb', 'numpy', 'numba', 'httpx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
