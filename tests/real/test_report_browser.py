"""The report opened in Chromium: nothing fetched, no complaint, every chart drawn, dark, narrow, by keyboard, judged by axe."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from engine_logs import config, log
from recommend_logs import database
from targets_real import system

from hedgectl import decompose
from hedgectl.policy import Goal
from hedgectl.recommend.options import Options
from hedgectl.report.build import report

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).with_name("report_page.cjs")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every figure: engines are confirmed, so that delay, survival and load are replayed."""
    system("HEDGECTL_CHROMIUM")  # no replay where there is no browser
    with database(log(5000, rho=0.45, slow=8.0, seed=2)) as con:
        html, document = report(con, decompose.prepare(con), Options(goal=Goal(), config=config()))
    assert document["method"]["estimator"] == "simulation"
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def seen(page: Path) -> dict[str, Any]:
    command = ["node", str(SCRIPT), system("HEDGECTL_CHROMIUM"), system("HEDGECTL_PLAYWRIGHT"), str(page)]
    shots = os.environ.get("HEDGECTL_SHOTS")  # a folder for people who want to look
    done = subprocess.run([*command, *([shots] if shots else [])], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("how", ["light", "dark", "narrow"])
def test_nothing_is_fetched_and_nothing_complains(seen: dict[str, Any], how: str) -> None:
    assert seen[how]["complaints"] == []
    assert seen[how]["requests"] == []
    assert seen[how]["ids_twice"] == []


@pytest.mark.parametrize("how", ["light", "dark", "narrow"])
def test_every_chart_is_drawn(seen: dict[str, Any], how: str) -> None:
    charts = {c["key"]: c for c in seen[how]["charts"]}
    wanted = {"bands", "replicas", "frontier", "survival_ttft", "survival_e2e", "loads", "observed"}
    assert wanted <= set(charts)
    for key, chart in charts.items():
        assert chart["drawn"] == 1, key
        assert chart["marks"] > 10, key
        assert chart["width"] > 250, key
        assert chart["height"] > 60, key
        assert chart["table"], key
        assert len(chart["label"]) > 60, key


def test_dark_mode(seen: dict[str, Any]) -> None:
    assert _brightness(seen["light"]["page"]) > 200 > 80 > _brightness(seen["dark"]["page"])
    assert _brightness(seen["light"]["ink"]) < 80 < 200 < _brightness(seen["dark"]["ink"])
    assert _brightness(seen["light"]["chart_ink"]) < 130 < 150 < _brightness(seen["dark"]["chart_ink"])


def test_a_telephone_does_not_scroll_sideways(seen: dict[str, Any]) -> None:
    assert seen["narrow"]["width"] == 400
    assert seen["narrow"]["scroll_width"] <= 400
    assert seen["narrow_open"] <= 400  # with every table open too: they scroll in their own frame


def test_the_keyboard_reaches_everything(seen: dict[str, Any]) -> None:
    keys = seen["keyboard"]
    assert keys["opened"]
    assert keys["summaries_reached"] == keys["summaries"]
    assert keys["links"] >= len(seen["light"]["charts"])
    assert keys["without_ring"] == []


@pytest.mark.parametrize("how", ["light_axe", "dark_axe", "narrow_axe"])
def test_axe_finds_nothing_serious(seen: dict[str, Any], how: str) -> None:
    assert [v for v in seen[how] if v["impact"] in ("serious", "critical")] == []


def test_paper_is_light_whatever_the_screen(seen: dict[str, Any]) -> None:
    assert _brightness(seen["print"]["page"]) > 200
    assert _brightness(seen["print"]["chart_ink"]) < 130
    assert seen["pdf_bytes"] > 20_000


def _brightness(color: str) -> float:
    """Mean of the channels of ``rgb(r, g, b)``."""
    return sum(float(c) for c in color[color.index("(") + 1 : -1].split(",")[:3]) / 3
