"""grpc-js and grpc-java accept every gRPC output and hedge as it says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from targets_real import POLICIES, document, hedging, run, system, write

from hedgectl import emitters, policy

pytestmark = pytest.mark.real

HERE = Path(__file__).parent
DELAY_MS = 300

METHODS = document(
    hedging(
        scope=policy.Scope(route="/llm.Chat"),
        eligible=(policy.Rule("route", "not_in", ("/llm.Chat/CallTool",)),),
    )
)
OFF = document(hedging(scope=policy.Scope(route="/llm.Chat"), decision="do_not_hedge"))


def node(mode: str, *configs: Path) -> Any:
    modules = system("HEDGECTL_NODE_MODULES")
    done = subprocess.run(
        ["node", str(HERE / "grpc_node.cjs"), mode, *map(str, configs)],
        env={**os.environ, "NODE_PATH": modules},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def java_classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    classpath = system("HEDGECTL_GRPC_JAVA")
    classes = tmp_path_factory.mktemp("classes")
    done = run("javac", "-nowarn", "-cp", classpath, "-d", classes, HERE / "GrpcJava.java")
    assert done.returncode == 0, done.stderr
    return f"{classes}:{classpath}"


def java(classpath: str, mode: str, *configs: Path) -> list[dict[str, Any]]:
    done = run("java", "-cp", classpath, "GrpcJava", mode, *configs)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def java_hedges(classpath: str, config: Path) -> dict[str, Any]:
    return {row["method"]: row for row in java(classpath, "hedge", config)}


def java_accepts(classpath: str, *configs: Path) -> list[bool]:
    return [not row["value"].startswith("REFUSED") for row in java(classpath, "accept", *configs)]


def test_node_and_java_accept_every_output(tmp_path: Path, java_classes: str) -> None:
    paths = [write(POLICIES[name], "grpc", tmp_path / f"{name}.json") for name in POLICIES]
    assert node("accept", *paths) == java_accepts(java_classes, *paths) == [True] * len(POLICIES)


def test_node_hedges_what_it_should_and_nothing_else(tmp_path: Path) -> None:
    found = node("hedge", write(METHODS, "grpc", tmp_path / "c.json"))
    complete = found["Complete"]
    assert (complete["value"], complete["attempts"]) == ("answer 1", 2)
    assert 0 in complete["cancelled"]  # the loser; the server is told so
    assert complete["copy_after_ms"] >= DELAY_MS  # since the call, so never less, however busy the machine is
    assert (found["CallTool"]["value"], found["CallTool"]["attempts"]) == ("answer 0", 1)
    # headers were sent at once: the clock has stopped, whatever the first token does
    assert (found["Stream"]["value"], found["Stream"]["attempts"]) == ("token", 1)


def test_java_hedges_what_it_should_and_nothing_else(tmp_path: Path, java_classes: str) -> None:
    found = java_hedges(java_classes, write(METHODS, "grpc", tmp_path / "c.json"))
    complete = found["Complete"]
    assert (complete["value"], complete["attempts"], complete["cancelled"]) == ("answer 1", 2, 1)
    assert complete["copy_after_ms"] >= DELAY_MS
    assert (found["CallTool"]["value"], found["CallTool"]["attempts"]) == ("answer 0", 1)


def test_off_is_off(tmp_path: Path, java_classes: str) -> None:
    path = write(OFF, "grpc", tmp_path / "c.json")
    for found in (node("hedge", path), java_hedges(java_classes, path)):
        assert [found[name]["attempts"] for name in ("Complete", "CallTool")] == [1, 1]


def test_nine_decimals_make_node_wait_for_the_deadline(tmp_path: Path) -> None:
    """Answers after 600 ms under a deadline of 900 ms: with fewer decimals the call fails at once."""
    slow = hedging(scope=policy.Scope(route="/llm.Chat"), delay_ms=800.0, deadline=policy.Deadline(900.0))
    path = write(document(slow), "grpc", tmp_path / "c.json")
    assert node("late", path)["Complete"]["value"] == "late"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["methodConfig"][0]["timeout"] = "0.9s"
    path.write_text(json.dumps(config), encoding="utf-8")
    assert node("late", path)["Complete"]["code"] == 4
    assert "nine_decimals" in [lint.code for lint in emitters.check(path.read_text(encoding="utf-8"), "grpc")]


# a change of the emitted policy; whether Node and Java take it (None: their JSON reader decides, not gRPC)
CHANGES: list[tuple[dict[str, Any], bool, bool | None]] = [
    ({"maxAttempts": 1}, False, False),
    ({"maxAttempts": "2"}, False, None),
    ({"maxAttempts": 9}, True, True),
    ({"hedgingDelay": "300ms"}, False, False),
    ({"hedgingDelay": 0.3}, False, None),
    ({"hedgingDelay": "0.3000000001s"}, False, None),
    ({"hedgingDelay": ...}, True, False),
    ({"nonFatalStatusCodes": ["unavailable"]}, True, False),
    ({"nonFatalStatusCodes": ["TIMEOUT"]}, False, False),
    ({"nonFatalStatusCodes": "UNAVAILABLE"}, True, None),
    ({"hedgingBudget": 5}, True, True),
]


def test_the_lints_know_what_clients_refuse_or_read_otherwise(tmp_path: Path, java_classes: str) -> None:
    paths = []
    for index, (changes, _, _) in enumerate(CHANGES):
        path = write(METHODS, "grpc", tmp_path / f"{index}.json")
        config = json.loads(path.read_text(encoding="utf-8"))
        hedge = {**config["methodConfig"][0]["hedgingPolicy"], **changes}
        config["methodConfig"][0]["hedgingPolicy"] = {key: value for key, value in hedge.items() if value is not ...}
        path.write_text(json.dumps(config), encoding="utf-8")
        assert emitters.check(path.read_text(encoding="utf-8"), "grpc"), changes
        paths.append(path)
    assert node("accept", *paths) == [in_node for _, in_node, _ in CHANGES]
    for (changes, _, expected), found in zip(CHANGES, java_accepts(java_classes, *paths), strict=True):
        assert expected is None or found is expected, changes
