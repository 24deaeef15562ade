"""promtool checks the emitted rules and passes their emitted unit tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from targets_real import POLICIES, run, system, write

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_promtool(name: str, tmp_path: Path) -> None:
    promtool = system("HEDGECTL_PROMTOOL")
    rules = write(POLICIES[name], "prometheus", tmp_path / "hedgectl-rules.yaml")
    checked = run(promtool, "check", "rules", rules)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tests = write(POLICIES[name], "prometheus", tmp_path / "hedgectl-rules.test.yaml", form="tests")
    tested = run(promtool, "test", "rules", tests, cwd=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_unit_tests_can_fail(tmp_path: Path) -> None:
    """With another budget in the rules the tests of the policy must not pass."""
    promtool = system("HEDGECTL_PROMTOOL")
    rules = write(POLICIES["small"], "prometheus", tmp_path / "hedgectl-rules.yaml")
    tests = write(POLICIES["small"], "prometheus", tmp_path / "hedgectl-rules.test.yaml", form="tests")
    rules.write_text(rules.read_text(encoding="utf-8").replace("> 0.05", "> 0.5"), encoding="utf-8")
    assert run(promtool, "test", "rules", tests, cwd=tmp_path).returncode != 0


def test_names_of_series_can_be_set(tmp_path: Path) -> None:
    promtool = system("HEDGECTL_PROMTOOL")
    names = {"requests": "gateway_requests_total", "model_label": "model_group", "rules_file": "rules.yaml"}
    rules = write(POLICIES["full"], "prometheus", tmp_path / "rules.yaml", **names)
    assert "gateway_requests_total" in rules.read_text(encoding="utf-8")
    tests = write(POLICIES["full"], "prometheus", tmp_path / "t.yaml", form="tests", **names)
    tested = run(promtool, "test", "rules", tests, cwd=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_promtool_accepts_the_days_figures() -> None:
    """What a node exporter's textfile collector is given."""
    log = Path(__file__).parents[2] / "sample_logs/litellm_payload/demo.jsonl.gz"
    page = run(sys.executable, "-m", "hedgectl", "stats", log, "-o", "prometheus", "-q")
    assert "hedgectl_e2e_seconds" in page.stdout
    checked = subprocess.run(
        [system("HEDGECTL_PROMTOOL"), "check", "metrics"], input=page.stdout, capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
