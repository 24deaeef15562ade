"""How the kernel reads its tables: a row by number, a column of the jobs by attempt or request, all from the run's record.

Compiled, a row is a pointer computed from the address in the record, so functions pass one word instead of a dozen
arrays; passing those was most of the kernel's time. Uncompiled, the same names hold lists.
"""

from __future__ import annotations

from typing import Any

from hedgectl.sim.jit import cells, rows
from hedgectl.sim.layout import ATTEMPT, CHANGE, NODE, REPLICA, REQUEST, RUN, SLOT, TIMER, WINDOW

Reader = Any  # (run, number) -> record or number

attempt: Reader = rows(RUN, "attempts", ATTEMPT)
request: Reader = rows(RUN, "requests", REQUEST)
replica: Reader = rows(RUN, "replicas", REPLICA)
window: Reader = rows(RUN, "windows", WINDOW)
slot: Reader = rows(RUN, "slots", SLOT)
timer: Reader = rows(RUN, "timers", TIMER)
node: Reader = rows(RUN, "nodes", NODE)
change: Reader = rows(RUN, "changes", CHANGE)

# of attempt a
work: Reader = cells(RUN, "work", "f8", wide=True)
tokens: Reader = cells(RUN, "tokens", "f8", wide=True)
prompt: Reader = cells(RUN, "prompt", "f8", wide=True)
gateway: Reader = cells(RUN, "gateway", "f8", wide=True)
fails_after: Reader = cells(RUN, "fails_after", "f8", wide=True)
pick: Reader = cells(RUN, "pick", "f8", wide=True)
# of request i
arrival: Reader = cells(RUN, "arrival", "f8")
predicted: Reader = cells(RUN, "predicted", "f8")
logged: Reader = cells(RUN, "logged", "i4")
clock: Reader = cells(RUN, "clock", "i4")
eligible: Reader = cells(RUN, "eligible", "i4")
# of request i * run.choices + k
choice: Reader = cells(RUN, "choices", "f8")
