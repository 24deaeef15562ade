"""The cron job: reads what is new, keeps the history, recomputes the policy, and changes nothing that it should not.

`run` is the job, `gates` decides whether a new policy may replace the old one, `files` writes without halves,
`lock` lets one job run at a time, `digests` exchanges figures between hosts, `state` serves runners without a disk.
"""

from hedgectl.daily.run import Job, daily

__all__ = ["Job", "daily"]
