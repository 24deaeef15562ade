"""A Ray cluster of four nodes, one of which is killed: the same answers as on one machine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real

ROWS, FILES = 2_000_000, 200
REPEATED = 50  # records of a file that the one before has too
KEYS = ("lines", "accepted", "duplicates", "not_requests", "rejected")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the scenario prints; it takes two minutes, so all tests share it."""
    script = Path(__file__).with_name("fleet_cluster.py")
    root = tmp_path_factory.mktemp("fleet")
    command = [os.environ["HEDGECTL_RAY_PYTHON"], str(script), str(root), str(ROWS), str(FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        pytest.fail(f"exit {done.returncode}: {done.stderr[-3000:]}")
    document: dict[str, Any] = json.loads(done.stdout)
    print(document["seconds"])
    return document


def test_a_lost_node_changes_nothing(found: dict[str, Any]) -> None:
    totals = found["totals"]
    assert totals["lines"] == ROWS == sum(totals[key] for key in KEYS[1:])
    assert totals["duplicates"] == REPEATED * (FILES - 1)
    assert totals["rejected"] == FILES
    assert found["same_ingest"]
    assert any("was lost" in text for text in found["notes"])


def test_a_second_run_reads_nothing(found: dict[str, Any]) -> None:
    assert [found["again"][key] for key in KEYS] == [0] * 5
    assert found["again"]["requests"] == found["totals"]["requests"]


def test_a_run_that_was_broken_off_goes_on(found: dict[str, Any]) -> None:
    stopped = found["stopped"]
    assert stopped["code"] == 130, stopped["said"]
    assert 0 < stopped["kept"] < stopped["whole"]
    assert stopped["already"] > 0
    assert stopped["same_window"]
    assert stopped["same_figures"]


@pytest.mark.parametrize("command", ["recommend", "stats"])
def test_documents_are_those_of_one_machine(found: dict[str, Any], command: str) -> None:
    same, length = found["answers"][command]
    assert length > 1000
    assert same
