"""A folder of Parquet parts in the place of a database: written by as many tasks as there are, read as one log.

``files/N.json`` number the logs, ``rows/`` hold canonical attempts by model, route, pool and hour, ``spans/`` and ``rejects/`` the
rest, ``batches/KEY.json`` say which parts count, ``hours/HOUR.json`` what an hour holds once repetitions are found. A part that no
batch names does not count, so that a task which dies or runs twice changes nothing.
"""

from __future__ import annotations

from hedgectl.fleet.load import Scope, load
from hedgectl.fleet.run import ingest

__all__ = ["Scope", "ingest", "load"]
