"""Figures of several hosts: one JSON file a host and day with two t-digests a cell (finished, censored), merged by all.

The digest's form is that of the Python package ``tdigest``; a digest alone cannot carry censoring, hence two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgectl import quantiles, sql
from hedgectl.daily import files
from hedgectl.errors import InputError, UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA = "hedgectl/digests.v1"
_HOST = re.compile(r"[A-Za-z0-9._-]{1,100}")
Cell = tuple[str, str, str]  # model, route, metric


@dataclass(frozen=True, slots=True)
class Merged:
    """What all hosts saw in the window: per cell the finished and the censored latencies, in ms."""

    cells: Mapping[Cell, tuple[Any, Any]]
    hosts: tuple[str, ...]

    def quantile(self, model: str | None, metric: str, p: float) -> float | None:
        """Kaplan-Meier quantile in ms over all routes of a model; None if it lies beyond what was seen to finish."""
        mine = [pair for (m, _, k), pair in self.cells.items() if k == metric and (model is None or m == model)]
        finished = quantiles.merge_digests([f for f, _ in mine])
        censored = quantiles.merge_digests([c for _, c in mine])
        values, weights, seen = [], [], []
        for digest, observed in ((finished, True), (censored, False)):
            for centroid in quantiles.digest_to_dict(digest)["centroids"]:
                values.append(centroid["m"])
                weights.append(centroid["c"])
                seen.append(observed)
        if not values:
            return None
        found, _ = quantiles.kaplan_meier(np.array(values), np.array(seen), p, np.array(weights))
        return found


def export(con: DuckDBPyConnection, folder: Path, host: str) -> list[Path]:
    """Writes one file a day of the database's history; a day that has not changed is not rewritten."""
    if not _HOST.fullmatch(host):
        raise UsageError(f"--host {host} is not a name", hint="letters, digits, dot, dash and underscore")
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", where=str(folder), hint="create it, on a disk all hosts see")
    rows = con.execute(sql.text("history/buckets").replace("{buckets}", "history_bucket")).fetchall()
    by_day: dict[date, dict[Cell, list[tuple[int, int, int]]]] = {}
    for day, model, route, metric, bucket, events, censored in rows:
        by_day.setdefault(day, {}).setdefault((model, route, metric), []).append((bucket, events, censored))
    written = []
    for day, cells in by_day.items():
        path = folder / f"{host}.{day.isoformat()}.json"
        document = {
            "schema": SCHEMA,
            "host": host,
            "day": day.isoformat(),
            "unit": "ms",
            "cells": [
                {"model": cell[0], "route": cell[1], "metric": cell[2], **_pair(counts)}
                for cell, counts in sorted(cells.items())
            ],
        }
        if files.write(path, json.dumps(document, ensure_ascii=False) + "\n"):
            written.append(path)
    return written


def _pair(counts: list[tuple[int, int, int]]) -> dict[str, Any]:
    middle = quantiles.bucket_value([b for b, _, _ in counts]) / 1e6
    return {
        name: quantiles.digest_to_dict(quantiles.weighted_digest(middle, [c[column] for c in counts]))
        for name, column in (("finished", 1), ("censored", 2))
    }


def merge(folder: Path, *, last: date, days: int) -> Merged:
    """All hosts' files of the ``days`` days up to ``last``. Raises InputError for a file that is not one of ours."""
    first = last - timedelta(days=days - 1)
    parts: dict[Cell, tuple[list[Any], list[Any]]] = {}
    hosts: set[str] = set()
    for path in sorted(folder.glob("*.json")):
        document = files.read_json(path)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise InputError(
                f"{path} holds no digests", where=str(path), hint="only hedgectl daily --digests writes here"
            )
        try:
            if not first <= date.fromisoformat(document["day"]) <= last:
                continue
            hosts.add(document["host"])
            for cell in document["cells"]:
                finished, censored = parts.setdefault((cell["model"], cell["route"], cell["metric"]), ([], []))
                finished.append(quantiles.digest_from_dict(cell["finished"], where=str(path)))
                censored.append(quantiles.digest_from_dict(cell["censored"], where=str(path)))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not as hedgectl writes it: {error}", where=str(path)) from error
    cells = {cell: (quantiles.merge_digests(f), quantiles.merge_digests(c)) for cell, (f, c) in parts.items()}
    return Merged(cells, tuple(sorted(hosts)))
