"""The document formats.v1: what is read, what each format can observe, and how to switch it on at the source."""

from __future__ import annotations

from typing import Any

from hedgectl import sql
from hedgectl.errors import InputError
from hedgectl.formats import starter
from hedgectl.formats.catalogue import Format, get, load_all
from hedgectl.formats.detect import detect
from hedgectl.formats.sample import Sample

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))


def formats_document(name: str | None = None) -> dict[str, Any]:
    """All formats, or the one called ``name``, as formats.v1. Raises UsageError with the nearest name."""
    chosen = list(load_all().values()) if name is None else [get(name)]
    return {
        "schema": "hedgectl/formats.v1",
        "as_of": None,
        "formats": [_entry(f) for f in chosen],
        "detected": None,
        "notes": [],
    }


def detection_document(sample: Sample, *, path: str) -> dict[str, Any]:
    """Which format fits ``sample`` (a user's file) and why, as formats.v1 with ``detected``.

    A log that no format fits gets a mapping to start from in ``detected.mapping``. Raises UsageError if two formats fit, InputError
    for an empty log, aggregates, or a log that is no flat records.
    """
    document: dict[str, Any] = {
        "schema": "hedgectl/formats.v1",
        "as_of": None,
        "formats": [],
        "detected": None,
        "notes": [],
    }
    try:
        found = detect(sample, where=path)
    except InputError:
        mapping = starter.write(sample)
        document["detected"] = {
            "path": path,
            "format": None,
            "share": None,
            "why": "no format fits this log",
            "mapping": mapping,
        }
        return document
    document["formats"] = [_entry(found.format)]
    document["detected"] = {
        "path": path,
        "format": found.format.name,
        "share": found.share,
        "why": found.why,
        "mapping": None,
    }
    return document


def _entry(fmt: Format) -> dict[str, Any]:
    folder = sql.samples_dir() / fmt.name
    return {
        "format": fmt.name,
        "title": fmt.title,
        "spec": fmt.spec,
        "source": fmt.source,
        "input": fmt.input,
        "detect": fmt.detect,
        "clock": fmt.clock,
        "resolution": _duration(fmt.resolution_ns),
        "observer": fmt.observer,
        "observes": list(fmt.observes),
        "one_row": fmt.one_row,
        "hint": fmt.hint or None,
        "traps": list(fmt.traps),
        "samples": sorted(p.name for p in folder.iterdir() if p.is_file()) if folder.is_dir() else [],
    }


def _duration(ns: int) -> str:
    size, unit = next((s, u) for s, u in _UNITS if ns % s == 0)
    return f"{ns // size}{unit}"
