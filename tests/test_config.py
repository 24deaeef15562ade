"""Settings: strict keys with the nearest name, origins, units."""

from __future__ import annotations

from pathlib import Path

import pytest

from hedgectl import config
from hedgectl.errors import UsageError


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "hedgectl.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_value_knows_its_origin(tmp_path: Path) -> None:
    path = write(tmp_path, 'tz = "UTC"\n\n[engine]\nconfirmed = true\nreplicas = 8\n')
    loaded = config.load(path, environ={"HEDGECTL_ENGINE_REPLICAS": "4"})
    assert loaded.get("engine.replicas") == 4
    assert loaded.origin("engine.replicas") == "HEDGECTL_ENGINE_REPLICAS"
    assert loaded.origin("engine.confirmed") == f"{path}:4"
    assert loaded.origin("recommend.budget") == "default"
    flagged = config.with_flags(loaded, {"engine.replicas": 2, "tz": None})
    assert (flagged.get("engine.replicas"), flagged.origin("engine.replicas")) == (2, "flag")
    assert flagged.origin("tz") == f"{path}:1"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("[engine]\nreplicaz = 8\n", "unknown setting engine.replicaz", "engine.replicas"),
        ("[engine]\nreplicas = 0\n", "engine.replicas = 0", "engines behind"),
        ("[engine]\nreplicas = true\n", "engine.replicas = True", "engines behind"),
        ('[recommend]\nbudget = "fifty"\n', "is not a share", "share"),
        ('[recommend]\nbudget = "0%"\n', "above 0% and at most 100%", "none: no limit"),
        ("[recommend]\nbudget = 5\n", "above 0% and at most 100%", "none: no limit"),
        ('[recommend]\nmin_gain = "500%"\n', "0% to 100%", "gain"),
        ("[recommend]\nmargin = 200\n", "with its unit", "quantile"),
        ('[engine]\ncancel = "frees"\n', "is not one of", "frees_engine"),
        ('[prices."m"]\ninput_per_mtoken = 1\n', "unknown price", "input_per_mtok"),
        ("[engine\n", "is not TOML", "config"),
    ],
)
def test_a_wrong_file_says_where_and_what_to_do(tmp_path: Path, text: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        config.load(write(tmp_path, text), environ={})
    assert what in raised.value.what
    assert hint in (raised.value.hint or "")
    assert "hedgectl.toml" in (raised.value.where or "")


@pytest.mark.parametrize(
    ("text", "value"),
    [("250ms", 0.25), ("1.5s", 1.5), ("7d", 604800.0), ("1850ms", 1.85), ("15.224798s", 15.224798), ("2h", 7200.0)],
)
def test_durations_need_their_unit(text: str, value: float) -> None:
    assert config.seconds(text) == value
    with pytest.raises(ValueError, match=r"\d"):
        config.seconds(text.rstrip("msdh"))


def test_ratios_are_percent_or_shares() -> None:
    assert config.ratio("5%") == config.ratio("0.05") == config.ratio(0.05) == 0.05
    for bad in ("-1%", "2000%", "", "x", True):
        with pytest.raises(ValueError):  # noqa: PT011 - float() words its own message
            config.ratio(bad)


def test_a_budget_is_what_a_policy_may_hold_or_no_limit() -> None:
    assert config.budget("100%") == 1.0
    assert config.budget(" None ") == "none"
    for bad in ("0%", 0, "101%", "500%", -1, "nan"):
        with pytest.raises(ValueError):  # noqa: PT011 - float() words its own message
            config.budget(bad)
