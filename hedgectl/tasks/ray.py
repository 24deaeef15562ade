"""Tasks on a Ray cluster: the same functions, elsewhere. [owns ray]"""

from __future__ import annotations

import contextlib
import os
import pickle
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from hedgectl.errors import HedgectlError, UnreachableError, UsageError
from hedgectl.tasks import Done, attempted, confined, helped

A = TypeVar("A")
R = TypeVar("R")

RETRIES = 5
"""How often a piece is begun again when its node is lost; a failure of the piece itself is not tried again."""

_CORES = 1  # of one piece, as the scheduler is told
_AHEAD = 2  # pieces in hand for each core: enough that none waits, few enough that a stop is quick
_WORTH_S = 0.25  # of work left: less is done before others have begun
_SLOW = 3.0  # times the median
_POLL_S = 1.0
_CONNECTS = 3


@contextlib.contextmanager
def cluster(where: str, cores: int | None = None) -> Iterator[RayTasks]:
    """Connects to ``ray://HOST:PORT``; for ``ray`` to the cluster of RAY_ADDRESS, else starts one that ends with the block.

    Raises UsageError without the extra, UnreachableError if nobody answers.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UsageError(f"--on {where} needs Ray", hint="pip install 'hedgectl[ray]'") from None
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if where == "ray" and os.environ.get("RAY_ADDRESS"):
        options |= {"address": os.environ["RAY_ADDRESS"]}
    elif where == "ray":
        # what hedgectl hands around is small: rows travel as Parquet
        options |= {
            "address": "local",  # else Ray joins whatever somebody left running on this machine
            "include_dashboard": False,
            "object_store_memory": 100 << 20,
            "num_cpus": cores,
        }
    else:
        options |= {"address": where}
    # Ray prints what it has to say of a lost node on stdout, which is for documents
    with contextlib.redirect_stdout(sys.stderr):
        try:
            _connect(ray, options)
        except Exception as error:
            hint = (
                "is the cluster up, is this its client port (10001), and does it ask for a token (RAY_AUTH_MODE)? "
                "see ray status"
            )
            last = (str(error).strip().splitlines() or ["?"])[-1].strip()
            raise UnreachableError(f"Ray does not answer: {last}", where=where, hint=hint) from error
        try:
            yield RayTasks(ray)
        finally:
            ray.shutdown()


def _connect(ray: Any, options: dict[str, Any]) -> None:
    """The server behind a client port forks beside threads of its own, and one in 15 times what it starts for us dies of that."""
    for left in reversed(range(_CONNECTS)):
        try:
            ray.init(**options)
            return
        except ConnectionAbortedError:  # the server answered and said so
            if not left:
                raise
            ray.shutdown()


class RayTasks:
    """See :class:`hedgectl.tasks.Tasks`."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._lost: list[str] = []
        self._slow: list[str] = []
        self._retried = 0
        self._parts: Counter[str] = Counter()
        self._alive = self._nodes()

    @property
    def workers(self) -> int:
        """Cores of the cluster."""
        return _cores(self._ray)

    def run(self, function: Callable[[A], R], items: Sequence[A], memory_bytes: Sequence[int]) -> Iterator[Done[R]]:
        """See :class:`hedgectl.tasks.Tasks`. Large pieces go first, so that one of them does not end the run alone.

        Pieces in hand when this is closed early are not cancelled one by one: Ray ends them with the job (in half a second), and aborts
        the process that cancels a piece at the moment it ends.
        """
        ray = self._ray
        begin = _starter(ray, function)
        waiting = sorted(range(len(items)), key=lambda i: -memory_bytes[i])
        begun: dict[Any, int] = {}
        retries = dict.fromkeys(waiting, 0)
        seconds: list[tuple[float, int, str]] = []
        while waiting or begun:
            while waiting and len(begun) < _AHEAD * self.workers:
                index = waiting.pop(0)
                begun[begin(items[index], memory_bytes[index])] = index
            ready, _ = ray.wait(list(begun), num_returns=1, timeout=_POLL_S)
            self._look()
            for reference in ready:
                index = begun.pop(reference)
                try:
                    result, failure, took, node, parts = ray.get(reference)
                except _losses(ray) as error:
                    if retries[index] == RETRIES:
                        yield Done(index, None, _lost(error), 0.0, "?", RETRIES)
                        continue
                    retries[index] += 1
                    self._retried += 1
                    waiting.insert(0, index)
                    continue
                seconds.append((took, index, node))
                self._parts += parts
                yield Done(index, result, failure, took, node, retries[index])
        self._stragglers(getattr(function, "__name__", "parts"), seconds)

    def summary(self) -> list[str]:
        """See :class:`hedgectl.tasks.Tasks`."""
        self._look()
        told = [f"node {name} was lost; its tasks ran elsewhere" for name in self._lost]
        if self._retried:
            told.append(f"{self._retried} tasks were begun again")
        if self._parts:
            nodes = ", ".join(sorted(self._parts))
            told.append(f"{self._parts.total()} parts of tasks were done by others, on nodes {nodes}")
        return [*told, *self._slow]

    def _nodes(self) -> dict[str, str]:
        return {n["NodeID"]: n["NodeManagerAddress"] for n in self._ray.nodes() if n["Alive"]}

    def _look(self) -> None:
        """Notices nodes that went away; those that came are welcome."""
        now = self._nodes()
        self._lost += [f"{n[:8]} ({address})" for n, address in self._alive.items() if n not in now]
        self._alive = now

    def _stragglers(self, name: str, seconds: Sequence[tuple[float, int, str]]) -> None:
        if len(seconds) < 4:
            return
        usual = statistics.median(s for s, _, _ in seconds)
        slow = sorted((s for s in seconds if s[0] > _SLOW * usual and s[0] > 1.0), reverse=True)
        if slow:
            longest, index, node = slow[0]
            self._slow.append(
                f"{len(slow)} of {len(seconds)} tasks ({name}) took more than {_SLOW:.0f} times the median of {usual:.1f} s; "
                f"the longest {longest:.1f} s, piece {index + 1} on node {node}"
            )


def _lost(error: Exception) -> HedgectlError:
    what = f"a task was lost {RETRIES + 1} times: {str(error).splitlines()[0]}"
    return HedgectlError(what, hint="give the nodes more memory, or --memory-limit; what is done is kept: run it again")


def _losses(ray: Any) -> tuple[type[Exception], ...]:
    """What a lost node or a killed worker shows as; a fault of the piece itself is something else."""
    found = ray.exceptions
    return (
        found.WorkerCrashedError,
        found.NodeDiedError,
        found.ObjectLostError,
        found.LocalRayletDiedError,
        found.OutOfMemoryError,
    )


def _memory_of_a_node(ray: Any) -> int:
    sizes = [int(n["Resources"].get("memory", 0)) for n in ray.nodes() if n["Alive"]]
    return max(sizes, default=0) or 1 << 30


def _cores(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _idle(ray: Any) -> int:
    """As the head knows it, some tenths of a second late."""
    return int(ray.available_resources().get("CPU", 0))


def _starter(ray: Any, function: Callable[[A], Any]) -> Callable[[A, int], Any]:
    """(item, memory in bytes) -> reference to the piece, which is begun where there is room.

    The function with what is bound to it travels once for all pieces: as bytes, since arrays of Ray's own are read-only on arrival.
    """
    # retries are ours, so that they can be counted and the node be named
    remote = ray.remote(num_cpus=_CORES, max_retries=0)(_piece)
    limit, shared = _memory_of_a_node(ray), ray.put(pickle.dumps(function))

    def begin(item: A, memory_bytes: int) -> Any:
        # a piece that states more than any node has would wait for ever
        return remote.options(memory=min(memory_bytes, limit)).remote(shared, item)

    return begin


def _piece(raw: bytes, item: Any) -> tuple[Any, HedgectlError | None, float, str, Counter[str]]:
    """Runs on a worker: the result, or a failure on purpose; how long it took, where, and how many parts others did by node."""
    import ray

    begin = time.perf_counter()
    others = Helped(ray)
    with confined(_CORES), helped(others):
        result, failure = attempted(pickle.loads(raw), item)
    node = str(ray.get_runtime_context().get_node_id())[:8]
    return result, failure, time.perf_counter() - begin, node, others.parts


class Helped:
    """Inside of a piece: others take parts from the front, the piece itself from the back, until they meet.

    A piece that only waited for its parts would keep its memory from them, and a few such pieces could fill a cluster. So what nobody
    else began in time is done here, and nothing waits for ever. Only idle cores are given parts: a part that waits for one would be done in
    vain once its piece has done it, and is not cancelled (see RayTasks.run).
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.parts: Counter[str] = Counter()

    @property
    def workers(self) -> int:
        """Cores of the cluster."""
        return _cores(self._ray)

    def run(self, function: Callable[[A], R], items: Sequence[A], memory_bytes: Sequence[int]) -> Iterator[Done[R]]:
        """See :class:`hedgectl.tasks.Tasks`."""
        ray = self._ray
        left = dict.fromkeys(range(len(items)))  # in order
        begun: dict[Any, int] = {}
        hand_out: Callable[[A, int], Any] | None = None  # made once it is worth it
        took = 0.0
        while left:
            mine = [i for i in left if i not in begun.values()]
            if took * len(left) > _WORTH_S and mine:
                hand_out = hand_out or _starter(ray, function)
                for index in mine[: max(0, min(_idle(ray), self.workers - len(begun)))]:
                    begun[hand_out(items[index], memory_bytes[index])] = index
                mine = [i for i in mine if i not in begun.values()]
            if begun:
                # once all is handed out, a while for what is under way
                patience = 0.0 if mine else 2 * took
                ready, _ = ray.wait(list(begun), num_returns=1, timeout=patience)
                for done in self._back(ready, begun):
                    if done.index in left:
                        del left[done.index]
                        yield done
                if ready:
                    continue
            index = mine[-1] if mine else next(reversed(left))
            begin = time.perf_counter()
            result, failure = attempted(function, items[index])
            took = time.perf_counter() - begin
            del left[index]
            yield Done(index, result, failure, took, "here")

    def _back(self, ready: Sequence[Any], begun: dict[Any, int]) -> Iterator[Done[Any]]:
        """What others did; what they lost is left to be done."""
        for reference in ready:
            index = begun.pop(reference)
            try:
                result, failure, took, node, _ = self._ray.get(reference)
            except _losses(self._ray):
                continue
            self.parts[node] += 1
            yield Done(index, result, failure, took, node)

    def summary(self) -> list[str]:
        """See :class:`hedgectl.tasks.Tasks`."""
        return []
