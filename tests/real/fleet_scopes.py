"""A Ray cluster of three nodes decides a large and a small scope as one machine does: prints what it saw as JSON.

Usage: fleet_scopes.py FOLDER LOG ENGINE (JSON). Runs in the interpreter that has hedgectl[ray].
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from hedgectl import analysis, fleet, tasks
from hedgectl.config import Config, Value
from hedgectl.decompose import Selection
from hedgectl.recommend import Options, recommend, spread


def main(root: Path, log: Path, engine: dict[str, Any]) -> None:
    """Decides on one machine and on the cluster."""
    from ray.cluster_utils import Cluster

    out = str(root / "out")
    fleet.ingest(out, [str(log)], tasks.Here())
    said: list[str] = []
    options = Options(
        config=Config({f"engine.{k}": Value(v, "test") for k, v in engine.items()}), cancel="frees_engine"
    )
    with analysis.opened(analysis.Logs(folder=out), Selection()) as found:
        here = recommend(found.con, found.prepared, options)
        size = {"object_store_memory": 150 << 20, "memory": 4 << 30}
        cluster = Cluster(initialize_head=True, head_node_args={**size, "num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            cluster.add_node(**size, num_cpus=1)
        os.environ["RAY_ADDRESS"] = cluster.address
        told = Options(config=options.config, cancel=options.cancel, progress=lambda text, _: said.append(text))
        with tasks.on("ray") as who:
            there = spread.recommended(found.con, found.prepared, told, who, out).document
            summary = who.summary()
        cluster.shutdown()
    policies = [[p["scope"]["model"], p["decision"], p["confidence"]] for p in there["policies"]]
    print(
        json.dumps(
            {"same": json.dumps(there) == json.dumps(here), "policies": policies, "said": said, "summary": summary}
        )
    )


if __name__ == "__main__":
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "120"}
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
