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


def node(config: Path, mode: str) -> Any:
    modules = system("HEDGECTL_NODE_MODULES")
    done = subprocess.run(
        ["node", str(HERE / "grpc_node.cjs"), str(config), mode],
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


def java(classpath: str, config: Path) -> dict[str, Any]:
    done = run("java", "-cp", classpath, "GrpcJava", config)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["method"]: row for row in rows}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_node_accepts(name: str, tmp_path: Path) -> None:
    assert node(write(POLICIES[name], "grpc", tmp_path / "c.json"), "accept") == {"accepted": True}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_java_accepts(name: str, tmp_path: Path, java_classes: str) -> None:
    rows = java(java_classes, write(POLICIES[name], "grpc", tmp_path / "c.json"))
    assert not [row for row in rows.values() if row["value"].startswith("REFUSED")]


def test_node_hedges_what_it_should_and_nothing_else(tmp_path: Path) -> None:
    found = node(write(METHODS, "grpc", tmp_path / "c.json"), "hedge")
    complete = found["Complete"]
    assert (complete["value"], complete["attempts"]) == ("answer 1", 2)
    assert 0 in complete["cancelled"]  # the loser; the server is told so
    assert complete["copy_after_ms"] >= DELAY_MS  # since the call, so never less, however busy the machine is
    assert (found["CallTool"]["value"], found["CallTool"]["attempts"]) == ("answer 0", 1)
    # headers were sent at once: the clock has stopped, whatever the first token does
    assert (found["Stream"]["value"], found["Stream"]["attempts"]) == ("token", 1)


def test_java_hedges_what_it_should_and_nothing_else(tmp_path: Path, java_classes: str) -> None:
    found = java(java_classes, write(METHODS, "grpc", tmp_path / "c.json"))
    complete = found["Complete"]
    assert (complete["value"], complete["attempts"], complete["cancelled"]) == ("answer 1", 2, 1)
    assert complete["copy_after_ms"] >= DELAY_MS
    assert (found["CallTool"]["value"], found["CallTool"]["attempts"]) == ("answer 0", 1)


def test_off_is_off(tmp_path: Path, java_classes: str) -> None:
    path = write(OFF, "grpc", tmp_path / "c.json")
    for found in (node(path, "hedge"), java(java_classes, path)):
        assert [found[name]["attempts"] for name in ("Complete", "CallTool")] == [1, 1]


def test_nine_decimals_make_node_wait_for_the_deadline(tmp_path: Path) -> None:
    """Answers after 600 ms under a deadline of 900 ms: with fewer decimals the call fails at once."""
    slow = hedging(scope=policy.Scope(route="/llm.Chat"), delay_ms=800.0, deadline=policy.Deadline(900.0))
    path = write(document(slow), "grpc", tmp_path / "c.json")
    assert node(path, "late")["Complete"]["value"] == "late"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["methodConfig"][0]["timeout"] = "0.9s"
    path.write_text(json.dumps(config), encoding="utf-8")
    assert node(path, "late")["Complete"] == {**node(path, "late")["Complete"], "code": 4}
    assert "nine_decimals" in [lint.code for lint in emitters.check(path.read_text(encoding="utf-8"), "grpc")]


def edited(tmp_path: Path, **changes: Any) -> Path:
    path = write(METHODS, "grpc", tmp_path / "c.json")
    config = json.loads(path.read_text(encoding="utf-8"))
    hedge = config["methodConfig"][0]["hedgingPolicy"]
    for key, value in changes.items():
        if value is None:
            del hedge[key]
        else:
            hedge[key] = value
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "in_node", "in_java"),
    [
        ({"maxAttempts": 1}, False, False),
        ({"maxAttempts": "2"}, False, None),
        ({"maxAttempts": 9}, True, True),
        ({"hedgingDelay": "300ms"}, False, False),
        ({"hedgingDelay": 0.3}, False, None),
        ({"hedgingDelay": "0.3000000001s"}, False, None),
        ({"hedgingDelay": None}, True, False),
        ({"nonFatalStatusCodes": ["unavailable"]}, True, False),
        ({"nonFatalStatusCodes": ["TIMEOUT"]}, False, False),
        ({"nonFatalStatusCodes": "UNAVAILABLE"}, True, None),
        ({"hedgingBudget": 5}, True, True),
    ],
)
def test_the_lints_know_what_clients_refuse(
    changes: dict[str, Any], in_node: bool, in_java: bool | None, tmp_path: Path, java_classes: str
) -> None:
    """Each spelling that a client refuses or reads otherwise has a lint."""
    path = edited(tmp_path, **changes)
    assert emitters.check(path.read_text(encoding="utf-8"), "grpc")
    assert node(path, "accept")["accepted"] is in_node
    if in_java is not None:
        rows = java(java_classes, path)
        assert rows["Complete"]["value"].startswith("REFUSED") is not in_java
