"""Which files are read together, by bytes, and the number each file gets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from hedgectl import place as places
from hedgectl.errors import HedgectlError, InputError
from hedgectl.fleet.manifest import Shelf, damaged
from hedgectl.formats.catalogue import Format
from hedgectl.ingest.document import File
from hedgectl.ingest.ledger import Entry, Ledger, fingerprint
from hedgectl.ingest.reading import head_of
from hedgectl.lines import kind_of, shown
from hedgectl.place import Place

BATCH_BYTES = 128 << 20
"""Text of one batch, roughly: what a task can hold as rows in a gigabyte."""

LEAST_BYTES = 32 << 20
"""Below this the start of a batch (a database, the format's SQL: 0.2 s) would be more than a tenth of it."""

ROUNDS = 4
"""Pieces of work for each worker, so that a long one does not end the run alone."""

_PACKED = 8  # a compressed log is about this much longer unpacked
_AT_ONCE = 16
_UNDER = "files/"


@dataclass(frozen=True, slots=True)
class Reading:
    """How logs are read; the same for every batch of a run."""

    chosen: Format | None = None
    tz: str | None = None
    memory_limit: str | None = None
    join: bool = False
    unit: str | None = None  # of durations that name none


@dataclass(frozen=True, slots=True)
class Batch:
    """Files that one task reads. ``known``: what was read of them before, each with the key of the batch that did."""

    folder: str
    paths: tuple[str, ...]
    file_ids: dict[str, int]
    known: tuple[tuple[Entry, str], ...]
    reading: Reading
    bytes: int


@dataclass(slots=True)
class _Seen:
    path: str
    head: bytes
    bytes: int
    known: list[Entry] = field(default_factory=list)


def plan(
    place: Place,
    shelf: Shelf,
    paths: Sequence[str],
    reading: Reading,
    *,
    batch_bytes: int | None,
    workers: int,
    least_bytes: int = 0,
) -> tuple[list[Batch], list[File]]:
    """Batches that cover all files, and the reports of those that cannot be opened.

    Files that begin alike may be the same file under two names, so they come into one batch, where that is found out.
    """
    entries = shelf.entries()
    ledger = Ledger()
    for entry, _ in entries.values():
        ledger.put(entry)
    seen: list[_Seen] = []
    unusable: list[File] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for path, found in zip(paths, pool.map(_look, paths), strict=True):
            if isinstance(found, HedgectlError):
                unusable.append(File(path, failure=found))
            else:
                found.known = ledger.candidates(found.head) if found.head else []
                seen.append(found)
    numbers = _numbers(place, seen, set(entries))
    batches = []
    share = sum(one.bytes for one in seen) // (ROUNDS * workers)
    size = batch_bytes or min(BATCH_BYTES, max(share, least_bytes) if workers > 1 else BATCH_BYTES)
    for group in _filled(_groups(seen), size):
        known = {e.file_id: entries[e.file_id] for one in group for e in one.known}
        batches.append(
            Batch(
                place.url,
                tuple(one.path for one in group),
                {shown(one.path): numbers[_name(one)] for one in group},
                tuple(known.values()),
                reading,
                sum(one.bytes for one in group),
            )
        )
    return batches, unusable


def _look(path: str) -> _Seen | HedgectlError:
    try:
        head = head_of(path)
        return _Seen(path, head, places.size(path) * (1 if _is_plain(path) else _PACKED))
    except OSError as error:
        return InputError(f"cannot be read: {error.strerror or error}", where=path)
    except HedgectlError as error:
        return error


def _is_plain(path: str) -> bool:
    if places.is_remote(path):
        return not path.endswith((".gz", ".zst", ".bz2", ".xz"))
    with open(path, "rb") as source:
        return kind_of(source.read(16)) == "plain"


def _groups(seen: Sequence[_Seen]) -> list[list[_Seen]]:
    """Files in their order, those that may be parts of one another together."""
    leader = list(range(len(seen)))

    def root(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    by_head: dict[tuple[int, str], int] = {}
    by_entry: dict[int, int] = {}
    sizes: set[int] = set()
    # a short file may be the beginning of a longer one, so short ones first
    for i in sorted(range(len(seen)), key=lambda k: len(seen[k].head)):
        head = seen[i].head
        if not head:
            continue
        alike = [by_head.get((size, fingerprint(head[:size])), i) for size in sizes if size < len(head)]
        alike.append(by_head.setdefault((len(head), fingerprint(head)), i))
        alike += [by_entry.setdefault(entry.file_id, i) for entry in seen[i].known]
        for other in alike:
            leader[root(i)] = leader[root(other)] = min(root(i), root(other))
        sizes.add(len(head))
    groups: dict[int, list[_Seen]] = {}
    for i, one in enumerate(seen):
        groups.setdefault(root(i), []).append(one)
    return list(groups.values())


def _filled(groups: Sequence[list[_Seen]], batch_bytes: int) -> Iterator[list[_Seen]]:
    batch: list[_Seen] = []
    for group in groups:
        if batch and sum(one.bytes for one in (*batch, *group)) > batch_bytes:
            yield batch
            batch = []
        batch = [*batch, *group]
    if batch:
        yield batch


def _name(one: _Seen) -> str:
    return f"{one.path}\0{fingerprint(one.head)}"


def _numbers(place: Place, seen: Sequence[_Seen], used: set[int]) -> dict[str, int]:
    """file_id by name and beginning. Numbers are given out once for all runs, in the order of the files.

    So a run that was broken off and resumed gives every file the number that an undisturbed run gives it.
    """
    while True:
        given: dict[str, int] = {}
        last, turn = max(used, default=0), 0
        for name in place.names(_UNDER):
            try:
                document = json.loads(place.read(name))
                given.update({n: i for i, n in enumerate(document["names"], document["first"])})
                last = max(last, document["first"] + len(document["names"]) - 1)
            except (KeyError, TypeError, ValueError):
                raise damaged(place, name) from None
            turn += 1
        free = {n: i for n, i in given.items() if i not in used}
        new = [n for n in dict.fromkeys(_name(one) for one in seen) if n not in free]
        if not new:
            return free
        text = json.dumps({"first": last + 1, "names": new}, separators=(",", ":"))
        # another run may have taken the same turn at the same moment: then look again
        if place.write_new(f"{_UNDER}{turn + 1:06d}.json", text.encode("utf-8", "backslashreplace")):
            return free | {n: i for i, n in enumerate(new, last + 1)}
