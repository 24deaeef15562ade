"""Runs jobs through the kernel, compiled or not, and says when it is going to compile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgectl.sim import jit, layout
from hedgectl.sim.inputs import Jobs, Law, Outcome, Rule, build, outcome
from hedgectl.sim.kernel import drain
from hedgectl.sim.layout import State

Progress = Callable[[str], None]
_RECORDS = {
    "attempt": layout.ATTEMPT,
    "request": layout.REQUEST,
    "replica": layout.REPLICA,
    "window": layout.WINDOW,
    "run": layout.RUN,
}


def run(jobs: Jobs, law: Law, rule: Rule) -> Outcome:
    """Replay `jobs` on the engines of `law` under `rule`, to the end of the last piece of work."""
    state = build(jobs, law, rule)
    if jit.COMPILED:
        drain(state)
        return outcome(state)
    return outcome(_run_plain(state))


def _run_plain(state: State) -> State:
    """The same kernel on plain Python objects and lists, which are much faster there than numpy's records."""
    fields = state._asdict()
    for name, value in fields.items():
        fields[name] = layout.plain(value) if name in _RECORDS else value.tolist()
    drain(State(**fields))
    for name, dtype in _RECORDS.items():
        fields[name] = layout.records(fields[name], dtype)
    return State(**fields)


def prepare(progress: Progress | None = None) -> None:
    """Compile (or load) the kernel now, on one request, telling `progress` if that will take a while."""
    if progress is not None and not jit.warm():
        progress("compiling the replay for this machine, once (about 20 s)")
    jobs = Jobs.of(np.zeros(1), np.ones(1))
    run(jobs, Law(replicas=1, decode_base=1.0, decode_per_sequence=0.0), Rule())
