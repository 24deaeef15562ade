"""Runs a probe from start to finish: signals of the terminal, the database, the document."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hedgectl.errors import ExitCode, HedgectlError, NotEnoughData, UnreachableError
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.session import Session
from hedgectl.probe.settings import ProbeSettings

_SIGNALS = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


def probe(settings: ProbeSettings, *, on_progress: Callable[[str], None] | None = None) -> Outcome:
    """Sends everything and returns when all of it is accounted for.

    SIGINT and SIGTERM close what is in flight and return what there is (``Outcome.interrupted``). Raises
    UnreachableError if the target does not even list its models.
    """
    return asyncio.run(_probe(settings, on_progress))


async def _probe(settings: ProbeSettings, on_progress: Callable[[str], None] | None) -> Outcome:
    session = Session(settings, on_progress=on_progress)
    loop = asyncio.get_running_loop()
    caught: list[signal.Signals] = []

    def interrupt(number: signal.Signals) -> None:
        caught.append(number)
        session.stop(number.name, at_once=True)

    for number in _SIGNALS:
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # Windows, or not the main thread
            loop.add_signal_handler(number, interrupt, number)
    try:
        outcome = await session.run()
    finally:
        for number in _SIGNALS:
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
                loop.remove_signal_handler(number)
    if caught:
        outcome.interrupted = caught[0].name
    return outcome


def check_database(db: Path) -> None:
    """Opens and closes the database before anything is spent. Raises what ``store.connect`` raises."""
    from hedgectl import store

    store.connect(db).close()


def save(outcome: Outcome, db: Path, *, wait_s: float = 10.0) -> int:
    """Writes the run's attempts; the database is held only for this."""
    from hedgectl import store
    from hedgectl.probe import rows

    with store.connect(db, wait_s=wait_s) as opened:
        return rows.write(outcome, opened)


def verdict(outcome: Outcome, doc: dict[str, Any]) -> HedgectlError | None:
    """What the exit code has to say beyond the document: nothing answered (6) or the run is void (3)."""
    attempts = [a for c in outcome.calls for a in c.attempts]
    if attempts and all(a.error_kind == "connect" for a in attempts):
        return UnreachableError(
            "the target does not answer", where=doc["target"], hint="is the address right and the server up?"
        )
    if doc["void"] is not None:
        return NotEnoughData(f"the run is void: {doc['void']}", hint="the numbers above are not to be relied on")
    return None


def exit_code(outcome: Outcome) -> ExitCode:
    """0, or that of the signal that ended the run."""
    return ExitCode.OK if outcome.interrupted is None else _SIGNALS[signal.Signals[outcome.interrupted]]
