"""The cron job: reads what is new, keeps the history, recomputes the policy, and changes nothing that it should not.

`job` is what a run is told, `run` runs it, `intake` reads and forgets, `delays` holds delays against other hosts and days,
`gates` decides whether a new policy may replace the old one, `choosing` which one stands, `files` writes without halves,
`lock` lets one job run at a time, `digests` exchanges figures between hosts, `state` serves runners without a disk.
"""

from hedgectl.daily.job import Job
from hedgectl.daily.run import daily

__all__ = ["Job", "daily"]
