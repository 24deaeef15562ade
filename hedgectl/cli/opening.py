"""From the flags of a command to an open analysis: settings, selection, progress, warnings about what was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hedgectl import config
from hedgectl.cli import output
from hedgectl.cli.options import Printing, Source
from hedgectl.errors import NotEnoughData, UsageError
from hedgectl.notes import doubts

if TYPE_CHECKING:
    from hedgectl.analysis import Logs, Opened
    from hedgectl.decompose import Selection
    from hedgectl.tasks import Tasks


def settings(source: Source, **flags: Any) -> config.Config:
    """The settings with the flags of ``source`` on top; ``flags`` are further ones by setting name, dots as ``__``."""
    typed = {
        "tz": source.tz,
        "memory_limit": source.memory_limit,
        "join": source.join or None,
        "recommend.min_requests": source.min_requests,
    }
    typed |= {name.replace("__", "."): value for name, value in flags.items()}
    loaded = config.load(source.config_file)
    for name in ("tz", "memory_limit", "db", "join", "recommend.min_requests"):
        if loaded.origin(name) not in ("default", "flag") and typed.get(name) is None:
            output.detail(f"{name} = {loaded.get(name)} from {loaded.origin(name)}")
    return config.with_flags(loaded, typed)


def logs(source: Source, cfg: config.Config, *, with_db: bool = False) -> Logs:
    """Where the rows come from. ``with_db``: files are added to the configured database, not read instead of it."""
    from pathlib import Path

    from hedgectl.analysis import Logs

    db = source.db
    if db is None and source.folder is None and (with_db or not source.logs) and cfg.get("db"):
        db = Path(cfg.get("db"))
    return Logs(
        paths=tuple(source.logs or ()),
        db=db,
        folder=source.folder,
        format=source.format,
        map_file=source.map_file,
        tz=cfg.get("tz"),
        unit=source.unit,
        max_reject=source.max_reject,
        memory_limit=cfg.get("memory_limit"),
        wait_s=source.wait or 0.0,
        join=bool(cfg.get("join")),
    )


def policy(path: str | None) -> Any:
    """The document that --policy names; None without one."""
    if path is None:
        return None
    from hedgectl.cli.emit import read_policy

    return read_policy(path)


def folder_for(source: Source, on: str) -> str:
    """The folder that the tasks of a cluster read. Raises UsageError without one: they cannot see a database or files here."""
    if source.folder is None or source.logs:
        raise UsageError(
            f"--on {on} needs --from",
            hint="hedgectl ingest LOG... --out FOLDER first, on storage that every node sees; then --from FOLDER",
        )
    return source.folder


def asked(source: Source, cfg: config.Config, on: str, module: str, function: str, /, **options: Any) -> dict[str, Any]:
    """The document that ``module.function(con, prepared, **options)`` makes, in a task of a cluster."""
    import importlib

    from hedgectl import analysis, tasks

    folder_for(source, on)
    with output.progress(f"asking {on}"), tasks.on(on) as workers:
        made = getattr(importlib.import_module(module), function)
        doc = analysis.ask(workers, analysis.Question(logs(source, cfg), selection(source, cfg), made, options))
        told(workers)
    strict(source, doubts(doc["notes"]))
    return doc


def told(workers: Tasks) -> None:
    """Lost nodes, repeated tasks and stragglers, for people: a document is the same whoever did the work."""
    for text in workers.summary():
        output.message(text)


def selection(source: Source, cfg: config.Config) -> Selection:
    from hedgectl import analysis
    from hedgectl.decompose import MIN_REQUESTS, Selection

    tz = cfg.get("tz")
    analysis.zone(tz)
    return Selection(
        since_ns=None if source.since is None else analysis.moment_ns(source.since, tz, flag="--since"),
        until_ns=None if source.until is None else analysis.moment_ns(source.until, tz, flag="--until"),
        window_ns=None if source.window is None else round(source.window * 1e9),
        as_of_ns=None if source.as_of is None else analysis.moment_ns(source.as_of, tz, flag="--as-of"),
        where=source.where,
        model=source.model,
        route=source.route,
        tz=tz,
        min_requests=cfg.get("recommend.min_requests", MIN_REQUESTS),
        assume_uncached=cfg.get("engine.prefix_cache") is False,
    )


@contextmanager
def opened(source: Source, cfg: config.Config, printing: Printing | None = None) -> Iterator[Opened]:
    """An open analysis; what was rejected or repeated while reading is said on stderr.

    With ``printing``, logs without a request give a JSON document that says so, before the command fails.
    """
    empty = output.fail_after if printing is not None and printing.fmt == "json" else None
    with output.progress("reading") as progress:
        from hedgectl import analysis

        with analysis.opened(logs(source, cfg), selection(source, cfg), progress, empty=empty) as found:
            progress.clear()
            say_read(found.ingested)
            strict(source, in_doubt(found))
            yield found


def in_doubt(found: Opened) -> list[str]:
    """What --strict minds in an open analysis: rows that were rejected, and the warnings about what was read and selected."""
    said = doubts(found.prepared.notes)
    if found.ingested is not None:
        return doubts(found.ingested["notes"]) + said
    return ([f"rejected when read: {found.rejected}"] if found.rejected else []) + said


def strict(source: Source, found: Sequence[str]) -> None:
    """With --strict and anything in doubt the command prints its numbers, writes no file and ends with exit code 3."""
    if source.strict and found:
        more = f"; and {len(found) - 4} more" if len(found) > 4 else ""
        output.fail_after(
            NotEnoughData(
                f"--strict: {len(found)} warning{'s' if len(found) > 1 else ''} about the data",
                where="; ".join(found[:4]) + more,
                hint="hedgectl ingest lists what was rejected and why; without --strict these are warnings",
            )
        )


def say_read(document: dict[str, Any] | None) -> None:
    """What was rejected, repeated or doubtful while files were read, on stderr."""
    if document is None:
        return
    totals = document["totals"]
    output.detail(
        f"{totals['lines']} lines = {totals['accepted']} accepted + {totals['duplicates']} duplicates + "
        f"{totals['not_requests']} not requests + {totals['rejected']} rejected"
    )
    if totals["rejected"]:
        first = next(
            (f, r)
            for f in document["files"]
            for r in f.get("rejects", []) or [{"line": "?", "reason": "?"}]
            if f["rejected"]
        )
        output.message(
            f"warning: {totals['rejected']} of {totals['lines']} lines were rejected, the first is "
            f"{first[0]['path']} line {first[1]['line']} ({first[1]['reason']}); hedgectl ingest lists them"
        )
    output.notes(document)
