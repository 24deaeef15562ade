"""What log shippers wrap around a line (CRI, docker, journald, syslog, CloudWatch, Loki), found and taken off."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_SHARE = 0.8
_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_CRI = re.compile(rf"({_STAMP}) (stdout|stderr) ([FP])(?: (.*))?$", re.DOTALL)
_CLOUDWATCH = re.compile(rf"{_STAMP}\s+(?=[{{\[])(.*)$", re.DOTALL)
_TAG = r"[A-Za-z_][\w.()/-]*(?:\[\d+\])?:"
_SYSLOG_BSD = re.compile(
    rf"(?:<\d{{1,3}}>)?[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d (?:[\w.:-]+ )?{_TAG} ?(.*)$", re.DOTALL
)
_SYSLOG_ISO = re.compile(rf"(?:<\d{{1,3}}>)?{_STAMP} [\w.:-]+ {_TAG} ?(.*)$", re.DOTALL)
_SYSLOG_5424 = re.compile(
    rf"<\d{{1,3}}>1 (?:{_STAMP}|-) \S+ \S+ \S+ \S+ (?:-|(?:\[(?:[^\]\\\"]|\\.|\"(?:[^\"\\]|\\.)*\")*\])+) ?(?:\ufeff)?(.*)$",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Inner:
    """What was inside one envelope: the text, and whether the next envelope of ``stream`` continues it."""

    text: str
    partial: bool = False
    stream: str = ""


Opener = Callable[[str], list[Inner] | None]
"""A line -> the texts inside (several for a batch of events), or None if the line is not such an envelope."""


def _cri(line: str) -> list[Inner] | None:
    found = _CRI.match(line)
    return [Inner(found[4] or "", found[3] == "P", found[2])] if found else None


def _by_pattern(pattern: re.Pattern[str]) -> Opener:
    def opener(line: str) -> list[Inner] | None:
        found = pattern.match(line)
        return [Inner(found[1])] if found else None

    return opener


def _syslog(line: str) -> list[Inner] | None:
    for pattern in (_SYSLOG_5424, _SYSLOG_BSD, _SYSLOG_ISO):
        found = pattern.match(line)
        if found:
            return [Inner(found[1])]
    return None


def _json(unwrap: Callable[[dict[str, Any]], list[Inner] | None], *keys: str) -> Opener:
    """``keys``: one of them stands in every such envelope; a line without is not decoded, which would take most of a small file's time."""
    marks = [f'"{key}"' for key in keys]

    def opener(line: str) -> list[Inner] | None:
        if not line.lstrip().startswith("{") or not any(mark in line for mark in marks):
            return None
        try:
            value = json.loads(line, strict=False)
        except (ValueError, RecursionError):
            return None
        return unwrap(value) if isinstance(value, dict) else None

    return opener


def _docker(value: dict[str, Any]) -> list[Inner] | None:
    log = value.get("log")
    if not isinstance(log, str) or not value.keys() & {"stream", "time", "kubernetes", "@timestamp", "date"}:
        return None
    stream = str(value.get("stream", ""))
    # docker cuts lines at 16 kB; the pieces but the last have no newline. Shippers strip it from all of them.
    partial = "time" in value and "kubernetes" not in value and not log.endswith("\n")
    return [Inner(log.rstrip("\r\n"), partial, stream)]


def _journald(value: dict[str, Any]) -> list[Inner] | None:
    if "MESSAGE" not in value or not any(key.startswith("_") for key in value):
        return None
    message = value["MESSAGE"]
    if isinstance(message, list) and all(isinstance(b, int) and 0 <= b < 256 for b in message):
        return [Inner(bytes(message).decode("utf-8", "backslashreplace"))]  # journald's way to write what is not UTF-8
    return [Inner(message)] if isinstance(message, str) else [Inner("")]


def _cloudwatch(value: dict[str, Any]) -> list[Inner] | None:
    for key in ("events", "logEvents"):
        events = value.get(key)
        if (
            isinstance(events, list)
            and events
            and all(isinstance(e, dict) and isinstance(e.get("message"), str) for e in events)
        ):
            return [Inner(e["message"].rstrip("\r\n")) for e in events]
    message = value.get("message")
    if (
        isinstance(message, str)
        and "timestamp" in value
        and value.keys() & {"ingestionTime", "eventId", "logStreamName", "logGroup"}
    ):
        return [Inner(message.rstrip("\r\n"))]
    return None


def _loki(value: dict[str, Any]) -> list[Inner] | None:
    if isinstance(value.get("line"), str) and isinstance(value.get("labels"), dict):
        return [Inner(value["line"].rstrip("\r\n"))]
    data = value.get("data", value)
    streams = data.get("result", data.get("streams")) if isinstance(data, dict) else None
    if not isinstance(streams, list) or not streams:
        return None
    found: list[Inner] = []
    for stream in streams:
        if (
            not isinstance(stream, dict)
            or not isinstance(stream.get("stream"), dict)
            or not isinstance(stream.get("values"), list)
        ):
            return None
        for pair in stream["values"]:
            if isinstance(pair, list) and len(pair) >= 2 and isinstance(pair[1], str):
                found.append(Inner(pair[1].rstrip("\r\n")))
    return found


ENVELOPES: dict[str, Opener] = {
    "cri": _cri,
    "docker": _json(_docker, "log"),
    "journald": _json(_journald, "MESSAGE"),
    "loki": _json(_loki, "labels", "values"),
    "cloudwatch": _json(_cloudwatch, "events", "logEvents", "ingestionTime", "eventId", "logStreamName", "logGroup"),
    "cloudwatch_text": _by_pattern(_CLOUDWATCH),
    "syslog": _syslog,
}


class Unwrapper:
    """Takes one kind of envelope off line after line and puts pieces that the shipper cut together again."""

    def __init__(self, envelope: str) -> None:
        self._open = ENVELOPES[envelope]
        self._waiting: dict[str, tuple[int, list[str]]] = {}

    def feed(self, lines: Iterable[str], first: int) -> list[tuple[int, int, str]]:
        """(line, place within it, text) of what is complete; a line without the envelope passes as it is. Blank lines are left out."""
        found: list[tuple[int, int, str]] = []
        for number, line in enumerate(lines, first):
            if not line.strip():
                continue
            for place, inner in enumerate(self._open(line) or [Inner(line)]):
                start, parts = self._waiting.pop(inner.stream, (number, []))
                parts.append(inner.text)
                if inner.partial:
                    self._waiting[inner.stream] = (start, parts)
                else:
                    found.append((start, place, "".join(parts)))
        return found

    def rest(self) -> list[tuple[int, int, str]]:
        """Lines whose end never came."""
        waiting, self._waiting = self._waiting, {}
        return [(start, 0, "".join(parts)) for start, parts in waiting.values()]


def find(lines: Sequence[str]) -> str | None:
    """The envelope that most of the sample lines wear, or None."""
    kept = [line for line in lines if line.strip()][:50]
    if not kept:
        return None
    for name, opener in ENVELOPES.items():
        if sum(opener(line) is not None for line in kept) >= max(1, _SHARE * len(kept)):
            return name
    return None


def take_off(line: str) -> str | None:
    """The JSON inside the envelope of a single line, for logs where only some lines wear one; None if there is none."""
    for name in ("cri", "cloudwatch_text", "syslog"):
        inner = ENVELOPES[name](line)
        if inner and inner[0].text.lstrip().startswith(("{", "[")):
            return inner[0].text.strip()
    return None
