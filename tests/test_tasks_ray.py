"""Reaching a Ray cluster whose server now and then loses what it starts for a client; no Ray is needed here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest

from hedgectl.errors import UnreachableError
from hedgectl.tasks.ray import cluster

LOST = ConnectionAbortedError("Initialization failure from server:\npsutil.ZombieProcess: PID still exists")


class Server:
    """What `import ray` finds: each connection meets the next of ``failures``, None for none."""

    def __init__(self, failures: Sequence[Exception | None]) -> None:
        self.failures = list(failures)
        self.open = False

    def init(self, **options: Any) -> None:
        failure = self.failures.pop(0)
        if failure:
            raise failure
        self.open = True

    def shutdown(self) -> None:
        self.open = False

    def nodes(self) -> list[dict[str, Any]]:
        assert self.open
        return []


def reach(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", server)
    with cluster("ray://192.0.2.1:10001"):
        assert server.open
    assert not server.open


def test_a_connection_that_the_server_lost_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([LOST, LOST, None, None])
    reach(server, monkeypatch)
    assert server.failures == [None]


@pytest.mark.parametrize(
    ("failures", "left", "said"),
    [
        ([LOST, LOST, LOST, None], 1, "ZombieProcess"),
        ([ConnectionError("ray client connection timeout"), None], 1, "timeout"),
    ],
)
def test_one_that_fails_for_good_is_told(
    failures: list[Exception | None], left: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(failures)
    with pytest.raises(UnreachableError, match=said):
        reach(server, monkeypatch)
    assert len(server.failures) == left
