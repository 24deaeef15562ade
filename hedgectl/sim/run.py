"""Runs jobs through the kernel, compiled or not, and says when it is going to compile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgectl.sim import jit, layout
from hedgectl.sim.inputs import Jobs, Law, Outcome, Rule, build, outcome
from hedgectl.sim.kernel import drain
from hedgectl.sim.layout import State

Progress = Callable[[str], None]


def run(jobs: Jobs, law: Law, rule: Rule) -> Outcome:
    """Replay `jobs` on the engines of `law` under `rule`, to the end of the last piece of work."""
    state = build(jobs, law, rule)
    if jit.COMPILED:
        drain(state.run)
        return outcome(state, jobs)
    return outcome(_run_plain(state, jobs), jobs)


def _run_plain(state: State, jobs: Jobs) -> State:
    """The same kernel on plain Python objects and lists, which are much faster there than numpy's records."""
    tables = {name: layout.plain(getattr(state, name)) for name in layout.TABLES}
    (g,) = layout.plain(state.run)
    for name, rows in tables.items():
        setattr(g, f"{name}_at", rows)
    wide = 1 << g.shift
    for name in layout.OF_ATTEMPT:
        padded = np.zeros((len(jobs.arrival), wide))
        padded[:, : jobs.attempts] = getattr(jobs, name)
        setattr(g, f"{name}_at", padded.ravel().tolist())
    for name in (*layout.OF_REQUEST, "choices"):
        setattr(g, f"{name}_at", getattr(jobs, name).ravel().tolist())
    drain([g])
    found = {name: layout.records(rows, layout.TABLES[name]) for name, rows in tables.items()}
    for name in layout.RUN.names or ():
        if name.endswith("_at"):
            setattr(g, name, 0)
    return State(**found, run=layout.records([g], layout.RUN))


def prepare(progress: Progress | None = None) -> None:
    """Compile (or load) the kernel now, on one request, telling `progress` if that will take a while."""
    if progress is not None and not jit.warm(drain):
        progress("compiling the replay for this machine, once (about 20 s)")
    jobs = Jobs.of(np.zeros(1), np.ones(1))
    run(jobs, Law(replicas=1, decode_base=1.0, decode_per_sequence=0.0), Rule())
