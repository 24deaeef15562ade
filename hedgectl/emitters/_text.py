"""Spelling: texts, durations, windows and headers as the targets' languages want them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from hedgectl.policy import PolicyDocument, Window, seconds

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def quoted(text: str) -> str:
    """A double-quoted text that JSON, TOML, YAML and JavaScript all read back as ``text``."""
    # what JSON leaves bare but TOML, YAML or JavaScript forbid: DEL, C1 controls, line separators, byte order mark
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]",
        lambda found: f"\\u{ord(found.group()):04x}",
        json.dumps(text, ensure_ascii=False),
    )


def one_line(text: str) -> str:
    """A text that cannot leave the comment it stands in."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def header(document: PolicyDocument, target: str, marker: str) -> str:
    """The comment that says which policy a file was written from."""
    lines = [f"hedgectl emit --to {target}", f"policy {document.policy_id()} as of {document.as_of}"]
    lines += [f"{policy.scope.name}: {policy.decision}" for policy in document.policies]
    return "".join(f"{marker} {one_line(line)}\n" for line in lines)


def seconds_text(ms: int) -> str:
    """Protobuf duration with milliseconds, for Envoy and gRPC delays: ``1.850s``."""
    return f"{ms // 1000}.{ms % 1000:03d}s"


def seconds_9(ms: int) -> str:
    """Protobuf duration with nine decimals: grpc-js reads ``0.9s`` of a call timeout as 9 ns."""
    return f"{ms // 1000}.{ms % 1000:03d}000000s"


def timespan(ms: int) -> str:
    """A .NET TimeSpan: ``00:00:01.850``."""
    days, rest = divmod(ms, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    text = f"{hours:02d}:{minutes:02d}:{rest // 1000:02d}"
    if rest % 1000:
        text += f".{rest % 1000:03d}"
    return f"{days}.{text}" if days else text


def number(value: float) -> int | float:
    """5.0 as 5, 0.5 as it is, without the tail of binary fractions."""
    rounded = round(value, 9)
    return int(rounded) if rounded == int(rounded) else rounded


def expires_at(document: PolicyDocument) -> str:
    """``as_of`` plus ``ttl``, RFC 3339 UTC, whole seconds."""
    moment = datetime.fromisoformat(document.as_of) + timedelta(seconds=seconds(document.ttl))
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def window_texts(windows: Iterable[Window]) -> list[str]:
    """``mon-fri 13:00-17:30``, UTC, split at midnight."""
    return [f"{days_text(part.days)} {part.start}-{part.end}" for each in windows for part in each.within_days()]


def days_text(days: Sequence[int]) -> str:
    """Days 1 to 7 as ``mon-fri`` or ``mon,wed``."""
    runs: list[list[int]] = []
    for day in sorted(days):
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(_DAYS[run[0] - 1] if len(run) == 1 else f"{_DAYS[run[0] - 1]}-{_DAYS[run[-1] - 1]}" for run in runs)


def slug(text: str, between: str = "-") -> str:
    """Letters, digits and ``between`` only, for names that a language restricts; may collide, see :func:`slugs`."""
    return re.sub(r"[^a-z0-9]+", between, text.lower()).strip(between) or "all"


def slugs(texts: Sequence[str], between: str = "-") -> list[str]:
    """A distinct slug for each text."""
    taken: set[str] = set()
    result: list[str] = []
    for text in texts:
        base = found = slug(text, between)
        count = 2
        while found in taken:
            found = f"{base}{between}{count}"
            count += 1
        taken.add(found)
        result.append(found)
    return result
