"""Settings from ``hedgectl.toml``, the environment and flags; each value knows where it came from.

Order, strongest first: a flag, ``HEDGECTL_SECTION_KEY`` in the environment, the file given with ``--config``
(else ``./hedgectl.toml``), the default. Secrets are never values here: only names of environment variables.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hedgectl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Setting:
    """One key that may stand in the file: ``section.key``, its kind, and what it means."""

    section: str
    key: str
    kind: str  # text | flag | count | number | ratio | part | budget | duration | list
    help: str
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}" if self.section else self.key


SETTINGS: tuple[Setting, ...] = (
    Setting("", "db", "text", "DuckDB file that analysis commands read and ingest writes"),
    Setting("", "tz", "text", "time zone of naive times in logs, e.g. Asia/Tokyo; windows are chosen in it"),
    Setting("", "join", "flag", "logs of several observers (gateway and engines) are put together, as with --join"),
    Setting("", "memory_limit", "text", "memory DuckDB may use, e.g. 2GB"),
    Setting("", "seed", "count", "seed of all randomness"),
    Setting("engine", "confirmed", "flag", "the replica ids in the log are engines of ours and the log is complete"),
    Setting("engine", "replicas", "count", "engines behind the scope"),
    Setting("engine", "max_running_requests", "count", "batch cap of one engine (vLLM --max-num-seqs)"),
    Setting("engine", "kv_capacity_tokens", "count", "key-value cache of one engine in tokens"),
    Setting(
        "engine",
        "mean_running_requests",
        "number",
        "mean requests in one engine by its own gauge, to tell a partial log",
    ),
    Setting("engine", "chunked_prefill", "flag", "prefill chunks share a step with decode"),
    Setting("engine", "prefix_cache", "flag", "false: no prefix cache, so a log without cached tokens has none"),
    Setting(
        "engine",
        "step_token_budget",
        "count",
        "tokens one step may process with chunked prefill (vLLM --max-num-batched-tokens)",
    ),
    Setting("engine", "cancel", "text", "what cancelling a loser does", ("frees_engine", "engine_runs_on", "unknown")),
    Setting("engine", "routing", "text", "how requests are routed now", ("as_logged", "random", "least_outstanding")),
    Setting("engine", "gpu_hour_cost", "number", "price of one GPU hour of one replica"),
    Setting("engine", "gpus_per_replica", "count", "GPUs behind one replica"),
    Setting("engine", "currency", "text", "currency of gpu_hour_cost"),
    Setting("recommend", "goal", "text", "e.g. e2e_p99 < 7s"),
    Setting("recommend", "budget", "budget", "share of requests that may be copied; none: no limit"),
    Setting("recommend", "burst", "count", "copies that may be sent at once"),
    Setting("recommend", "max_cost", "ratio", "cost growth that is acceptable"),
    Setting("recommend", "min_gain", "part", "gain of the goal's percentile below which no hedge is worth it"),
    Setting("recommend", "min_requests", "count", "requests below which nothing is recommended"),
    Setting("recommend", "margin", "duration", "added to the quantile that sets the delay"),
    Setting("recommend", "floor", "duration", "shortest delay"),
    Setting("recommend", "ceiling", "duration", "longest delay"),
    Setting("recommend", "deadline", "duration", "total deadline of both copies"),
    Setting(
        "recommend",
        "loser_billing",
        "text",
        "what a cancelled copy costs",
        ("full", "until_cancel", "prompt_only", "none"),
    ),
    Setting("recommend", "copy_length", "text", "whether a copy's answer is as long", ("same", "independent", "both")),
    Setting("recommend", "idempotent_tools", "list", "names of tools that may run twice"),
    Setting("recommend", "segments", "list", "segments that may have a copy; all others may not"),
    Setting("recommend", "max_prompt_tokens", "count", "longest prompt that is worth computing twice"),
    Setting("recommend", "quota_rpm", "count", "requests a minute that the provider allows; copies count against it"),
    Setting("recommend", "quota_tpm", "count", "tokens a minute that the provider allows; copies count against it"),
    Setting("recommend", "one_clock", "flag", "trust first tokens although some are logged before their start"),
    Setting("recommend", "windows", "text", "hedge only in hours in which slow requests recur", ("auto", "none")),
    Setting("daily", "state_dir", "text", "where daily keeps what it needs between runs"),
    Setting("daily", "window", "duration", "trailing window the policy rests on"),
    Setting("daily", "policy", "text", "policy file that daily keeps up to date"),
    Setting("daily", "emit", "list", "TARGET=FILE pairs that daily writes beside the policy"),
    Setting("daily", "max_delay_change", "ratio", "change of the delay beyond which daily wants a cause"),
    Setting("daily", "hysteresis", "ratio", "change below which the old policy stays"),
)

# Tables whose keys are the user's own names.
OPEN_SECTIONS = {
    "prices": ("input_per_mtok", "cached_input_per_mtok", "output_per_mtok", "per_request", "currency"),
}


@dataclass(frozen=True, slots=True)
class Value:
    """A setting's value and where it came from (``default``, ``file:line``, an environment variable, or a flag)."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Config:
    """All settings that were given; what was not given is absent, so that a default never hides a choice."""

    values: Mapping[str, Value] = field(default_factory=dict)
    prices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    path: Path | None = None

    def get(self, name: str, default: Any = None) -> Any:
        """The value of ``section.key``, or ``default``."""
        found = self.values.get(name)
        return default if found is None else found.value

    def origin(self, name: str) -> str:
        found = self.values.get(name)
        return "default" if found is None else found.origin

    def section(self, name: str) -> dict[str, Any]:
        """The values of one section under their bare keys."""
        return {k.split(".", 1)[1]: v.value for k, v in self.values.items() if k.startswith(f"{name}.")}


def load(path: Path | None = None, *, environ: Mapping[str, str] | None = None) -> Config:
    """Reads the file and the environment.

    ``path`` None means ``./hedgectl.toml`` if it exists. Raises UsageError with file, line and the nearest known key.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Value] = {}
    prices: dict[str, Mapping[str, Any]] = {}
    if path is None and Path("hedgectl.toml").is_file():
        path = Path("hedgectl.toml")
    if path is not None:
        text = _read(path)
        try:
            tree = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(
                f"{path} is not TOML: {error}", where=str(path), hint="see hedgectl config --help for an example"
            ) from error
        _collect(tree, text, path, values, prices)
    for setting in SETTINGS:
        variable = "HEDGECTL_" + setting.name.upper().replace(".", "_")
        if variable in environ:
            values[setting.name] = Value(convert(setting, environ[variable], where=variable), variable)
    return Config(values, prices, path)


def with_flags(config: Config, flags: Mapping[str, Any]) -> Config:
    """The configuration with the flags a user typed (``None`` = not typed) on top."""
    merged = dict(config.values)
    for name, value in flags.items():
        if value is not None:
            merged[name] = Value(value, "flag")
    return Config(merged, config.prices, config.path)


def convert(setting: Setting, raw: Any, *, where: str) -> Any:
    """Checks and converts one raw value. Ratios become floats, durations seconds. Raises UsageError."""
    expected = {
        "text": "a text",
        "flag": "true or false",
        "count": "a whole number above 0",
        "number": "a number of 0 or more",
        "ratio": "a ratio such as 0.05 or 5%",
        "part": PART,
        "budget": BUDGET,
        "duration": "a duration with its unit, e.g. 250ms",
        "list": "a list of texts",
    }[setting.kind]
    try:
        value = _CONVERT[setting.kind](raw)
    except (ValueError, TypeError, OverflowError):
        raise UsageError(f"{setting.name} = {raw!r} is not {expected}", where=where, hint=setting.help) from None
    if setting.choices and value not in setting.choices:
        near = difflib.get_close_matches(str(value), setting.choices, n=1, cutoff=0.4)
        raise UsageError(
            f"{setting.name} = {raw!r} is not one of {', '.join(setting.choices)}",
            where=where,
            hint=f"did you mean {near[0]}?" if near else setting.help,
        )
    return value


_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|min|h|d|w)\s*$")
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
_CENTURY_S = 36_525 * 86_400.0  # times are 64 bit nanoseconds inside: longer ones would not fit


def seconds(text: str) -> float:
    """Seconds of a duration that names its unit: ``250ms``, ``1.5s``, ``7d``. Raises ValueError without one, or beyond a century."""
    match = _DURATION.match(text)
    if match is None:
        raise ValueError(text)
    value = float(match[1]) * _SECONDS[match[2]] if match[2] != "ms" else float(match[1]) / 1000.0
    if value > _CENTURY_S:
        raise ValueError(text)
    return value


def ratio(text: str | float | int) -> float:
    """A share: ``5%``, ``0.05``. Raises ValueError outside 0..10 (1000 %)."""
    if isinstance(text, bool):
        raise ValueError(text)
    value = float(text[:-1]) / 100.0 if isinstance(text, str) and text.strip().endswith("%") else float(text)
    if not 0.0 <= value <= 10.0:
        raise ValueError(text)
    return value


PART = "a share of 0% to 100%, e.g. 5%"
BUDGET = "a share above 0% and at most 100%, e.g. 5%, or none for no limit"


def part(text: str | float | int) -> float:
    """A share of a whole. Raises ValueError outside 0..1."""
    value = ratio(text)
    if value > 1.0:
        raise ValueError(text)
    return value


def budget(text: str | float | int) -> float | str:
    """Copies per request, or the word none. Raises ValueError for what no policy document may hold: 0, or above 1."""
    if isinstance(text, str) and text.strip().lower() == "none":
        return "none"
    value = part(text)
    if value == 0.0:
        raise ValueError(text)
    return value


def _text(raw: Any) -> str:
    if not isinstance(raw, str) or not raw:
        raise ValueError(raw)
    return raw


def _flag(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    return words[raw.lower()] if isinstance(raw, str) and raw.lower() in words else _fail(raw)


def _fail(raw: Any) -> bool:
    raise ValueError(raw)


def _count(raw: Any) -> int:
    if isinstance(raw, bool) or (isinstance(raw, float) and not raw.is_integer()):
        raise ValueError(raw)
    value = int(raw)
    if not 1 <= value < 1 << 63:
        raise ValueError(raw)
    return value


def _number(raw: Any) -> float:
    if isinstance(raw, bool):
        raise ValueError(raw)
    value = float(raw)
    if not 0.0 <= value < float("inf"):
        raise ValueError(raw)
    return value


def _list(raw: Any) -> list[str]:
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list) or not all(isinstance(i, str) for i in items):
        raise ValueError(raw)
    return [i.strip() for i in items if i.strip()]


_CONVERT: dict[str, Any] = {
    "text": _text,
    "flag": _flag,
    "count": _count,
    "number": _number,
    "ratio": ratio,
    "part": part,
    "budget": budget,
    "duration": lambda raw: seconds(_text(raw)),
    "list": _list,
}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"no configuration file {path}", hint="write one, or leave --config out") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read {path}: {why}", where=str(path), hint="a TOML file in UTF-8") from error


def _line(text: str, section: str, key: str) -> int:
    """Line of ``key`` in its section (tomllib keeps no positions); 1 if it cannot be told."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            current = stripped.strip("[]").split(".")[0].strip()
        if current == section and re.match(rf"[\"']?{re.escape(key)}[\"']?\s*[=.\]]|\[.*{re.escape(key)}", stripped):
            return number
    return 1


def _collect(
    tree: dict[str, Any], text: str, path: Path, values: dict[str, Value], prices: dict[str, Mapping[str, Any]]
) -> None:
    known = {s.name: s for s in SETTINGS}
    sections = {s.section for s in SETTINGS if s.section} | set(OPEN_SECTIONS)
    for top, content in tree.items():
        if isinstance(content, dict) and top == "prices":
            for model, table in content.items():
                where = f"{path}:{_line(text, 'prices', model)}"
                prices[model] = _price(model, table, where)
            continue
        pairs = {f"{top}.{k}": v for k, v in content.items()} if isinstance(content, dict) else {top: content}
        for name, raw in pairs.items():
            section, _, key = name.rpartition(".")
            where = f"{path}:{_line(text, section, key)}"
            if name not in known:
                if name in sections:
                    raise UsageError(f"{name} is a table, not a value", where=where, hint=f"write [{name}] on a line")
                near = difflib.get_close_matches(name, [*known, *sections], n=1, cutoff=0.5)
                raise UsageError(
                    f"unknown setting {name}",
                    where=where,
                    hint=f"did you mean {near[0]}?" if near else "hedgectl config show lists all settings",
                )
            values[name] = Value(convert(known[name], raw, where=where), where)


def _price(model: str, table: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(table, dict):
        raise UsageError(
            f"prices.{model} is not a table", where=where, hint='write [prices."model name"] and its prices'
        )
    found: dict[str, Any] = {}
    for key, raw in table.items():
        if key not in OPEN_SECTIONS["prices"]:
            near = difflib.get_close_matches(key, OPEN_SECTIONS["prices"], n=1)
            raise UsageError(
                f"unknown price {key}",
                where=where,
                hint=f"did you mean {near[0]}?" if near else f"one of: {', '.join(OPEN_SECTIONS['prices'])}",
            )
        kind = "text" if key == "currency" else "number"
        found[key] = convert(Setting(f"prices.{model}", key, kind, "price per million tokens"), raw, where=where)
    return found
