"""The registry of log formats: the folder ``queries/formats`` is the list, a file is an entry, nothing else is edited.

How to add a format
-------------------
1. ``queries/formats/<name>.toml`` for flat records (one record = one attempt or one request), or ``queries/formats/<name>.sql`` for
   nested and text logs. Same header keys in both: ``format`` (the file's name), ``title``, ``spec`` (where the format is specified),
   ``source`` (how to switch it on), ``input``, ``detect``, ``clock``, ``resolution``, ``observer``, ``observes``, ``hint``, ``traps``
   (`` ; `` between them), ``join_ids`` (only in SQL: by which of its ids a row may be found in another observer's log: columns, or
   ``column~regex`` whose group 1 is the id; a comma and a blank between them; default ``request_id, attempt_id``) and ``notes``
   (``code = words ; code = words``, for the codes that the SELECT returns in ``note``). In SQL they are ``-- key: value`` lines that
   open the file; a line ``--   more`` continues the value above it.
2. ``sample_logs/<name>/`` with one or more small files of your own making, real in shape, that show every column of ``observes``.
3. ``tests/golden/formats/<name>.json``, written by ``python tests/make_format_goldens.py <name>`` and then read by you, and one
   invariant in ``tests/test_formats_<name>.py``.

``input``: ``json`` = records of named fields, whatever the container (JSON lines, an array, ``{"data": [...]}``, CSV with a header,
Parquet); ``csv`` or ``parquet`` = only that container; ``text`` = lines.

The SELECT reads ``raw(line BIGINT, record INTEGER, j JSON)``, or ``raw(line, record, text VARCHAR)`` for text, and returns ``line``,
``record`` and any of the columns of ``attempt`` by name (``columns.CANONICAL``), and if needed ``kind`` (``attempt`` by default, ``tool``,
``not_request``, ``reject``), ``reason`` (a stable code for the last two) and ``note`` (stable codes, comma-separated, for doubts about a
row that is kept). ``request_id`` may be NULL: ingest makes one from file and line. A ``tool`` row needs ``turn_id``, ``tool_names``,
``arrival_ns``, ``e2e_ns``. Every record must come back at least once; one record may give several rows. No window functions: ``raw`` is a
block of the file, not the file, unless ``one_row`` is ``part``: several records together are one request, and the file is not cut. Extract all paths of a record in one ``json_extract_string(j, ['/a', '/b/c', ...]) AS v``.

``detect`` (must be distinctive, see ``detect.py``): comma-separated terms, all of which must hold for a record: ``a`` key present
(``a.b`` nested, ``a|b`` either), ``!a`` absent, ``a=x`` value equals, ``a~re`` value matches, ``/regex/`` the text of the record (of the
line, for a text format) matches, ``!/regex/`` it does not. A key that itself holds a dot, comma, ``|``, ``=`` or ``~`` is written in
double quotes: ``"gen_ai.latency.e2e"``.

Macros (``queries/formats/_macros.sql``, loaded by ingest; NULL for what they cannot read)
-----------------------------------------------------------------------------------------
- text: ``present(s)`` ('' and '-' are NULL), ``to_text(s)`` (no JSON containers), ``to_count(s)``, ``to_bool(s)``, ``to_money(s)``
- decimal text -> ns: ``s_ns ms_ns us_ns ns_ns min_ns (s)``; ``duration_ns(s)`` for text with a unit ('1.2s', '1m2s', '0:00:00.25')
- time text -> ns UTC: ``iso_ns(s)``, ``iso_in_ns(s, tz)``, ``time_ns(s)``, ``time_in_ns(s, tz)`` (ISO, or epoch told apart by size),
  ``epoch_by_size_ns(s)``, ``clf_ns(s)``, ``wall_ns(s)``, ``naive_ns(wall, tz)``, ``zone_of(s)``, ``is_naive(s)``;
  ``exact_digits(j, pattern, s)`` for JSON numbers with more digits than a double has
- status: ``http_class(code)``, ``http_kind(code)``, ``word_class(w)``, ``word_kind(w)``
- lists: ``tool_list(s)`` -> sorted comma-separated names
- OTLP: ``otlp_attrs(json)`` then ``otlp_attr(attrs, key)``; ``otlp_text(value)``; ``otlp_id(s)`` (hex, lower case, from base64 too)

The session variable ``hedgectl_tz`` holds ``--tz`` for naive times (NULL = UTC); a mapping's own ``tz`` wins over it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hedgectl import sql
from hedgectl.errors import UsageError
from hedgectl.formats import columns, mapping
from hedgectl.formats.format import HEADER, Format, from_header, read_text


@cache
def load_all() -> dict[str, Format]:
    """Every format on disk, by name, sorted. Raises UsageError naming file and line of a faulty entry."""
    folder = sql.queries_dir() / "formats"
    found: dict[str, Format] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("_") or path.suffix not in (".toml", ".sql"):
            continue
        if path.stem in found:
            raise UsageError(f"two files define the format {path.stem}", where=str(path))
        found[path.stem] = _load_sql(path) if path.suffix == ".sql" else mapping.load(path, own=False)
    return found


def get(name: str) -> Format:
    """The format called ``name``. Raises UsageError with the nearest name."""
    formats = load_all()
    if name in formats:
        return formats[name]
    near = columns.nearest(name, list(formats))
    raise UsageError(
        f"no format is called {name}",
        hint=f"did you mean {near}?"
        if near
        else f"there are: {', '.join(formats)}; --map FILE reads a log of your own",
    )


def load_user_map(path: Path | str, *, unit: str | None = None) -> Format:
    """A user's own TOML mapping as a Format. Raises UsageError for one that is not understood, with file and nearest name.

    ``unit`` is that of durations for which neither the mapping nor the value names one.
    """
    return mapping.load(Path(path), own=True, unit=unit)


def asked(name: str | None, map_file: Path | None, *, unit: str | None = None) -> Format | None:
    """The format that --format or --map names; None for neither. Raises UsageError if they name two."""
    if map_file is None:
        return None if name is None else get(name)
    own = load_user_map(map_file, unit=unit)
    if name is not None and name != own.name:
        raise UsageError(
            f"--map is the format {own.name}, --format says {name}",
            where=str(map_file),
            hint="give one of them: a mapping is a format of its own",
        )
    return own


@cache
def with_unit(fmt: Format, unit: str) -> Format:
    """The same format with a unit for durations that name none. Only mappings have such durations."""
    if fmt.path is None or fmt.path.suffix != ".toml":
        return fmt
    return mapping.load(fmt.path, own=False, unit=unit)


def _load_sql(path: Path) -> Format:
    text = read_text(path)
    head: dict[str, str] = {}
    last = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("--"):
            break
        body = line[2:]
        if body.startswith("   ") and last:
            head[last] += " " + body.strip()
            continue
        key, colon, value = body.strip().partition(":")
        if not colon or key not in (*HEADER, "one_row", "join_ids"):
            near = columns.nearest(key, list(HEADER))
            raise UsageError(
                f"{key!r} is no header key of a format",
                where=f"{path}:{number}",
                hint=f"did you mean {near}?" if near else None,
            )
        if key in head:
            raise UsageError(f"header key {key} stands twice", where=f"{path}:{number}")
        head[key] = value.strip()
        last = key
    return from_header(head, path, select_sql=text, keys=())


@cache
def note_texts() -> dict[str, str]:
    """Note code -> words, from the headers of all formats; words hold no count."""
    return {code: words for fmt in load_all().values() for code, words in fmt.notes}


__all__ = ["Format", "asked", "get", "load_all", "load_user_map", "note_texts", "with_unit"]
