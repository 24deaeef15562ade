"""Work in pieces that do not depend on each other: one after another here, or spread over the machines of a cluster."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hedgectl.errors import HedgectlError, UsageError

A = TypeVar("A")
R = TypeVar("R")

_threads: ContextVar[int | None] = ContextVar("threads", default=None)
_sharers: ContextVar[int] = ContextVar("sharers", default=1)


def threads() -> int | None:
    """How many threads the piece in hand may keep busy; None where the machine is its own."""
    return _threads.get()


def sharers() -> int:
    """How many pieces share the memory that this process may take."""
    return _sharers.get()


@contextlib.contextmanager
def confined(to: int, *, sharers: int = 1) -> Iterator[None]:
    """What runs in the block keeps so many threads busy: the cores that its scheduler counts with. So many ``sharers`` do so at once."""
    token, other = _threads.set(to), _sharers.set(sharers)
    try:
        yield
    finally:
        _threads.reset(token)
        _sharers.reset(other)


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """One piece that is finished: a result or a failure on purpose, in ``seconds``, on ``node``, after ``retries``."""

    index: int
    result: R | None
    error: HedgectlError | None
    seconds: float
    node: str
    retries: int = 0


_helpers: ContextVar[Tasks | None] = ContextVar("helpers", default=None)


def helpers() -> Tasks:
    """Who may take a part of the piece in hand: this process alone outside of a cluster."""
    return _helpers.get() or Here()


@contextlib.contextmanager
def helped(by: Tasks) -> Iterator[None]:
    """What runs in the block may hand parts of its work to ``by``."""
    token = _helpers.set(by)
    try:
        yield
    finally:
        _helpers.reset(token)


class Tasks(Protocol):
    """Who does the work."""

    @property
    def workers(self) -> int:
        """How many pieces can be in hand at once."""

    def run(self, function: Callable[[A], R], items: Sequence[A], memory_bytes: Sequence[int]) -> Iterator[Done[R]]:
        """Calls ``function`` on each item and yields as they finish, in any order. ``memory_bytes`` is what each may take.

        What all pieces need is bound to ``function`` (functools.partial), which travels once. A HedgectlError ends its own piece only. After a generator that is closed before its end nothing new is begun, and what is in hand ends with :func:`on`.
        """

    def summary(self) -> list[str]:
        """What is worth telling about the run: lost nodes, stragglers. Empty for an even one."""


@contextlib.contextmanager
def on(where: str | None, *, cores: int | None = None) -> Iterator[Tasks]:
    """The machine itself for None, ``ray`` for a local cluster of its own (of ``cores``), ``ray://HOST:PORT`` for one that runs."""
    if where is None:
        yield Here()
        return
    if where != "ray" and not where.startswith("ray://"):
        raise UsageError(f"--on {where} is not known", hint="--on ray, or --on ray://HOST:PORT")
    from hedgectl.tasks.ray import cluster

    with cluster(where, cores) as tasks, helped(tasks):
        yield tasks


class Here:
    """One piece after another in this process, which has the machine to itself."""

    workers = 1

    def run(self, function: Callable[[A], R], items: Sequence[A], memory_bytes: Sequence[int]) -> Iterator[Done[R]]:
        """See :class:`Tasks`."""
        for index, item in enumerate(items):
            begin = time.perf_counter()
            result, failure = attempted(function, item)
            yield Done(index, result, failure, time.perf_counter() - begin, "here")

    def summary(self) -> list[str]:
        """See :class:`Tasks`."""
        return []


class Abreast(Here):
    """So many pieces at once in this process, each in a thread that keeps to one core and to its share of the memory."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, function: Callable[[A], R], items: Sequence[A], memory_bytes: Sequence[int]) -> Iterator[Done[R]]:
        """See :class:`Tasks`. One that is closed before its end waits for the pieces in hand: a thread cannot be cancelled."""
        if len(items) < 2 or self.workers < 2:
            yield from super().run(function, items, memory_bytes)
            return

        def one(index: int) -> Done[R]:
            begin = time.perf_counter()
            with confined(1, sharers=self.workers):
                result, failure = attempted(function, items[index])
            return Done(index, result, failure, time.perf_counter() - begin, "here")

        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="hedgectl-piece")
        try:
            for done in as_completed([pool.submit(one, index) for index in range(len(items))]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def attempted(function: Callable[[A], R], item: A) -> tuple[R | None, HedgectlError | None]:
    """A failure on purpose as a value: other failures are faults and pass."""
    try:
        return function(item), None
    except HedgectlError as error:
        return None, error
