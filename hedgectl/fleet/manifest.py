"""What a batch left in the folder, and which batches count."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hedgectl.errors import InputError
from hedgectl.ingest.ledger import Entry
from hedgectl.place import Place

SCHEMA = "hedgectl/batch.v1"
_UNDER = "batches/"


@dataclass(frozen=True, slots=True)
class Part:
    """A Parquet object with rows of one scope, pool and hour (``2026-11-29T04``; None = rows without a time).

    ``bytes`` is its size, None where a version before this field wrote it.
    """

    name: str
    rows: int
    model: str | None
    route: str | None
    pool: str | None
    hour: str | None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """What a batch read of one file: the ledger's entry afterwards.

    ``after`` is the key of the batch that read the file before, and ``from_line`` the line behind which its rows of this file
    are replaced by these (its last line had no end yet); None for a file nobody knew.
    """

    entry: Entry
    after: str | None = None
    from_line: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One batch. ``formats``: format -> observer, first and last arrival (ns, UTC). ``key`` tells it from all others."""

    key: str
    segments: tuple[Segment, ...]
    parts: tuple[Part, ...]
    spans: str | None
    rejects: str | None
    formats: dict[str, tuple[str, int, int]]

    @property
    def newest_ns(self) -> int | None:
        """The last arrival."""
        return max((high for _, _, high in self.formats.values()), default=None)

    def commit(self, place: Place) -> None:
        """From here on the batch counts. One object, so it is there or it is not."""
        document = {"schema": SCHEMA, **dataclasses.asdict(self)}
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        place.write(f"{_UNDER}{self.key}.json", text.encode("utf-8", "backslashreplace"))


def _parsed(raw: bytes, name: str) -> Manifest:
    try:
        document: dict[str, Any] = json.loads(raw)
        if document.pop("schema") != SCHEMA:
            raise ValueError("another schema")
        segments = tuple(Segment(Entry(**s.pop("entry")), **s) for s in document.pop("segments"))
        parts = tuple(Part(**part) for part in document.pop("parts"))
        formats = {name: (str(o), int(low), int(high)) for name, (o, low, high) in document.pop("formats").items()}
        return Manifest(segments=segments, parts=parts, formats=formats, **document)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{name} is not as hedgectl writes it: {error}",
            where=name,
            hint="written by another version, or no folder that hedgectl ingest --out filled",
        ) from error


@dataclass(frozen=True, slots=True)
class Shelf:
    """The batches that count, in an order in which every file goes on where it stopped."""

    manifests: tuple[Manifest, ...] = ()

    def entries(self) -> dict[int, tuple[Entry, str]]:
        """By file_id: how far each file is read, and the batch that read it last."""
        return {s.entry.file_id: (s.entry, m.key) for m in self.manifests for s in m.segments}

    def cuts(self) -> dict[str, dict[int, int]]:
        """By batch key: the files whose rows behind a line were replaced by a later batch."""
        found: dict[str, dict[int, int]] = {}
        for manifest in self.manifests:
            for segment in manifest.segments:
                if segment.after is not None and segment.from_line is not None:
                    found.setdefault(segment.after, {})[segment.entry.file_id] = segment.from_line
        return found

    @property
    def newest_ns(self) -> int | None:
        """The last arrival in the folder."""
        return max((m.newest_ns for m in self.manifests if m.newest_ns is not None), default=None)


def damaged(place: Place, name: str) -> InputError:
    """What to say of an object that is not as hedgectl wrote it."""
    return InputError(
        f"{name} is damaged: it is not as hedgectl wrote it",
        where=place.url,
        hint="restore the file from a copy, or ingest the logs into a new folder",
    )


def check(place: Place, shelf: Shelf) -> None:
    """Raises InputError if a part is missing or has another size than it was written with."""
    sizes = place.sizes("rows/")
    for part in (part for manifest in shelf.manifests for part in manifest.parts):
        if part.name not in sizes:
            place.read(part.name)  # says that it is gone
        elif part.bytes is not None and sizes[part.name] != part.bytes:
            raise damaged(place, part.name)


def shelf(place: Place) -> Shelf:
    """Reads the batches of a folder; an empty or missing one has none."""
    names = [name for name in place.names(_UNDER) if name.endswith(".json")]
    return standing(_parsed(place.read(name), name) for name in names)


def standing(manifests: Iterable[Manifest]) -> Shelf:
    """The batches that count.

    Two runs that read the same file at the same time leave two batches that both hold it: the first by key counts, the other
    does not, and the files that only it held are read again by the next run. So nothing is ever counted twice.
    """
    waiting: Sequence[Manifest] = sorted(manifests, key=lambda m: m.key)
    tips: dict[int, str] = {}
    kept: list[Manifest] = []
    while True:
        left = []
        for manifest in waiting:
            if all(tips.get(s.entry.file_id) == s.after for s in manifest.segments):
                tips.update((s.entry.file_id, manifest.key) for s in manifest.segments)
                kept.append(manifest)
            else:
                left.append(manifest)
        if len(left) == len(waiting):
            return Shelf(tuple(kept))
        waiting = left
