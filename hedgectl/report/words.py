"""The opening of the report in plain words: verdict, decision a scope, what to do instead, and the argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hedgectl.policy import PolicyDocument, ScopePolicy, explain
from hedgectl.report.figure import Table, ms, percent

VERDICTS = {
    "isolated": "Isolated: one replica is slow while others are not.",
    "shared": "Shared: replicas are slow together.",
    "mixed": "Mixed: part of the tail is one replica's, part is shared.",
    "long_work": "Long work: slow requests simply have more to do.",
    "outlier_replica": "Outlier replica: one replica is slower than the others all the time.",
    "tools": "Tools: the time goes into tool calls, not into the model.",
    "no_tail": "No tail: the slowest requests are close to the typical one.",
    "cannot_tell": "This log cannot tell what its tail is made of.",
}
DECISIONS = {
    "hedge": "Send copies of slow requests",
    "do_not_hedge": "Do not send copies",
    "not_enough_data": "Not enough data to decide",
}
_LIMITS = ("left out", "hours", "no copies while")
IN_FULL = 8  # scopes; the others are in the table


@dataclass(frozen=True, slots=True)
class ScopeWords:
    """One scope: its decision as a headline, the sentence, what to do instead, and the argument by topic."""

    name: str
    decision: str
    headline: str
    sentence: str
    instead_title: str
    instead: tuple[str, ...]
    argument: tuple[tuple[str, tuple[str, ...]], ...]  # by topic: why, what it does, its price
    limits: tuple[tuple[str, tuple[str, ...]], ...]  # who gets a copy, and when none is sent


@dataclass(frozen=True, slots=True)
class Opening:
    """What stands above the first figure."""

    verdict: str
    confidence: str
    because: tuple[str, ...]
    advice: tuple[str, ...]
    scopes: tuple[ScopeWords, ...]
    table: Table | None  # one line a scope, if there are several
    left_out: int
    notes: tuple[str, ...]


def opening(diagnosis: Mapping[str, Any], document: PolicyDocument) -> Opening:
    """The words for a diagnosis and a policy document of the same selection."""
    told = explain(document)
    many = len(document.policies) > 1
    scopes = []
    for entry, policy in list(zip(told["scopes"], document.policies, strict=True))[:IN_FULL]:
        name = policy.scope.name
        headline = f"{DECISIONS[policy.decision]} ({policy.confidence} confidence)"
        topics: dict[str, list[str]] = {}
        for one in entry["argument"]:
            if one["topic"] != "instead":
                topics.setdefault(one["topic"], []).append(one["text"])
        told_of = [(topic, tuple(texts)) for topic, texts in topics.items()]
        scopes.append(
            ScopeWords(
                name if many else "",
                policy.decision,
                headline,
                entry["sentence"],
                _instead_title(document, policy),
                tuple(str(c["text"]) for c in policy.instead if c.get("text")),
                tuple(one for one in told_of if one[0] not in _LIMITS),
                tuple(one for one in told_of if one[0] in _LIMITS),
            )
        )
    notes = [*document.notes, *(n for n in diagnosis["notes"] if n not in document.notes)]
    return Opening(
        verdict=VERDICTS[diagnosis["verdict"]],
        confidence=diagnosis["confidence"],
        because=tuple(r["text"] for r in diagnosis["reasons"]),
        advice=tuple(a["text"] for a in diagnosis["advice"]),
        scopes=tuple(scopes),
        table=_table(document) if many else None,
        left_out=len(document.policies) - len(scopes),
        notes=tuple(str(n["text"]) for n in notes if n.get("level") in ("warning", "error"))
        + tuple(str(n["text"]) for n in notes if n.get("level") not in ("warning", "error")),
    )


def _instead_title(document: PolicyDocument, policy: ScopePolicy) -> str:
    """The cheaper cure stands first where it gains at least what the copies gain."""
    if not policy.is_on:
        return "Instead, best first"
    name = document.goal.metric  # e2e_p99_ms
    metric, percentile = name.removesuffix("_ms").split("_", 1)
    hedged = ((policy.projection or {}).get("hedged") or {}).get(f"{metric}_ms") or {}
    first = ((policy.instead[0].get("expected") or {}) if policy.instead else {}).get(name)
    if first is not None and hedged.get(percentile) is not None and first <= hedged[percentile]:
        return "Do this first: it gains at least as much, without any copy"
    return "Also worth doing, best first"


def _table(document: PolicyDocument) -> Table:
    rows = []
    for policy in document.policies:
        projection = policy.projection or {}
        p99 = [((projection.get(arm) or {}).get("e2e_ms") or {}).get("p99") for arm in ("unhedged", "hedged")]
        delay = ms(policy.hedge.delay_ms) if policy.hedge is not None and policy.is_on else "-"
        copies = (projection.get("hedged") or {}).get("hedge_rate")
        money = (projection.get("cost") or {}).get("delta_ratio")
        rows.append(
            (
                policy.scope.name,
                DECISIONS[policy.decision].lower(),
                policy.confidence,
                delay,
                ms(p99[0]),
                ms(p99[1]),
                percent(copies),
                percent(money),
            )
        )
    columns = ("scope", "decision", "confidence", "delay", "p99 now", "p99 hedged", "copies", "extra cost")
    return Table(columns, rows, left=3)
