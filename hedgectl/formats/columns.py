"""The closed list of names a mapping may use, with their kind and unit; nothing else becomes an SQL identifier.

A key of ``[fields]`` is a name from here, times and durations with the unit of the source as a suffix:
``e2e_ms = "latencyMs"``, ``ttft_s = "ttft"``, ``ts_us = "when"``. Without a suffix a time may be ISO text or an epoch number
(told apart by its size), and a duration must carry its unit in the value (``"850ms"``); a bare number is then rejected.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Literal

from hedgectl.errors import UsageError

Kind = Literal["time", "duration", "text", "count", "flag", "money", "special"]

UNITS: dict[str, str] = {"s": "s_ns", "ms": "ms_ns", "us": "us_ns", "ns": "ns_ns", "min": "min_ns"}
"""Unit suffix -> macro that turns decimal text of that unit into integer nanoseconds."""

TIMES = ("ts", "end", "first_token")
DURATIONS = ("e2e", "ttft", "headers", "queue", "prefill", "decode", "tool_wait", "hedge_delay")
TEXTS = (
    "request_id", "attempt_id", "turn_id", "replica", "pool", "model", "route", "provider", "segment", "currency",
    "loser_replica",
)  # fmt: skip
COUNTS = (
    "attempt", "attempt_no", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "request_bytes",
    "response_bytes", "n_choices",
)  # fmt: skip
FLAGS = (
    "won", "cache_hit", "streamed", "tools_offered", "stored_state", "batch", "closed_loop", "hedged", "hedge_won",
    "sticky_session",
)  # fmt: skip
SPECIALS = ("status", "error", "hedge_role", "tools", "weight")
CURRENCIES = ("usd", "eur", "gbp", "jpy", "cny", "inr", "chf", "krw", "brl", "cad", "aud", "sgd")
"""Currencies that ``cost_<currency>`` accepts; any other one is given with ``cost`` and ``currency``."""

CANONICAL: tuple[str, ...] = (
    "request_id", "attempt_id", "attempt_no", "cause", "turn_id", "replica", "pool", "model", "route", "provider", "segment",
    "observer", "arrival_ns", "e2e_ns", "ttft_ns", "ttft_basis", "headers_ns", "queue_ns", "queue_basis", "prefill_ns",
    "prefill_basis", "decode_ns", "decode_basis", "tool_wait_ns", "tool_wait_basis", "resolution_ns", "prompt_tokens",
    "cached_tokens", "completion_tokens", "reasoning_tokens", "request_bytes", "response_bytes", "status", "http_status",
    "error_kind", "won", "cache_hit", "streamed", "tools_offered", "stored_state", "batch", "n_choices", "tool_names",
    "closed_loop", "cost", "currency", "weight", "parent_id", "sticky_session",
)  # fmt: skip
"""Columns of the table ``attempt`` that a format may fill (``file_id``, ``line``, ``record``, ``format`` and
``content_hash`` belong to the ingest stage)."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of ``[fields]``: the canonical name, its kind, and the unit its suffix named (None = told by the value)."""

    name: str
    kind: Kind
    unit: str | None = None


def _all() -> dict[str, Key]:
    keys: dict[str, Key] = {}
    for name in TIMES:
        keys[name] = Key(name, "time")
        keys.update({f"{name}_{u}": Key(name, "time", u) for u in UNITS if u != "min"})
    for name in DURATIONS:
        keys[name] = Key(name, "duration")
        keys.update({f"{name}_{u}": Key(name, "duration", u) for u in UNITS})
    keys.update({name: Key(name, "text") for name in TEXTS})
    keys.update({name: Key(name, "count") for name in COUNTS})
    keys.update({name: Key(name, "flag") for name in FLAGS})
    keys.update({name: Key(name, "special") for name in SPECIALS})
    keys["cost"] = Key("cost", "money")
    keys.update({f"cost_{c}": Key("cost", "money", c) for c in CURRENCIES})
    return keys


KEYS: dict[str, Key] = _all()

_OTHER_NAMES = {
    "latency": "e2e_ms", "latency_ms": "e2e_ms", "duration": "e2e_ms", "duration_ms": "e2e_ms", "timestamp": "ts",
    "start": "ts", "start_time": "ts", "end_time": "end", "input_tokens": "prompt_tokens", "output_tokens": "completion_tokens",
    "stream": "streamed", "winner": "won", "n": "n_choices", "tool_names": "tools", "host": "replica", "tenant": "segment",
    "http_status": "status", "arrival_ns": "ts_ns", "sticky": "sticky_session",
}  # fmt: skip

_UNIT_WORDS = {"ns": "nano", "us": "micro", "ms": "milli", "s": "sec", "min": "minute"}


def nearest(word: str, words: list[str]) -> str | None:
    """The name out of ``words`` that ``word`` was probably meant to be, or None."""
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return near[0] if near else None


def key(name: str, *, where: str) -> Key:
    """The key called ``name``. Raises UsageError with the nearest name for one that is not in the list."""
    if name in KEYS:
        return KEYS[name]
    stem, _, unit = name.lower().rpartition("_")
    spelled = next((f"{stem}_{u}" for u in UNITS if unit.startswith(_UNIT_WORDS.get(u, u))), "")
    near = spelled if spelled in KEYS else _OTHER_NAMES.get(name.lower()) or nearest(name, list(KEYS))
    raise UsageError(
        f"no field is called {name!r}",
        where=where,
        hint=f"did you mean {near}?" if near else "a key of [fields] is one of ours, its value is the name in your log",
    )


def suggest_unit(name: str) -> str | None:
    """The unit that a field's own name states (``latencyMs``, ``ttft_s``, ``duration_seconds``), or None."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    match = re.search(
        r"(?:^|[_.\-\s(])(ns|nanos?|nanoseconds?|us|micros?|microseconds?|ms|millis?|milliseconds?|msecs?|s|secs?|seconds?)\)?$",
        words,
    )
    if match is None:
        return None
    unit = match.group(1)
    if unit.startswith("n"):
        return "ns"
    if unit == "us" or unit.startswith("micro"):
        return "us"
    return "ms" if unit.startswith("m") else "s"
