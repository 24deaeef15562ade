"""Runs the sandbox until its time is up or a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from hedgectl.errors import UsageError
from hedgectl.probe.sandbox.app import Sandbox, SandboxSettings
from hedgectl.probe.sandbox.engine import Law


def settings(
    *,
    replicas: int,
    slow: int,
    slow_factor: float,
    routing: str,
    answer_tokens: float,
    max_running: int,
    runs_on: bool,
    independent: bool,
    seed: int,
) -> SandboxSettings:
    """Checked settings. Raises UsageError."""
    if slow > replicas:
        raise UsageError(f"{slow} slow replicas of {replicas}", hint="--slow is at most --replicas")
    if routing not in ("random", "least_outstanding"):
        raise UsageError(f"--routing {routing}", hint="random or least_outstanding")
    return SandboxSettings(
        replicas=replicas,
        slow=slow,
        slow_factor=slow_factor,
        law=Law(max_running=max_running),
        routing=routing,
        frees=not runs_on,
        answer_tokens=answer_tokens,
        copies_same=not independent,
        seed=seed,
    )


def serve(what: SandboxSettings, *, host: str, port: int, for_s: float | None, on_ready: Callable[[str], None]) -> None:
    """Serves; ``on_ready`` gets the address once it listens. Raises KeyboardInterrupt for SIGINT, after closing."""
    caught = asyncio.run(_serve(what, host, port, for_s, on_ready))
    if caught is not None:
        # handled like everywhere else, now that every connection is closed
        signal.raise_signal(caught)


async def _serve(
    what: SandboxSettings, host: str, port: int, for_s: float | None, on_ready: Callable[[str], None]
) -> signal.Signals | None:
    box = Sandbox(what)
    try:
        address = await box.start(host, port)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="--port 0 takes a free one"
        ) from error
    ended = asyncio.Event()
    caught: list[signal.Signals] = []
    loop = asyncio.get_running_loop()

    def interrupt(number: signal.Signals) -> None:
        caught.append(number)
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, interrupt, number)
    try:
        on_ready(address)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                await ended.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
                loop.remove_signal_handler(number)
        await box.close()
    return caught[0] if caught else None
