"""Runs of the probe against scripted servers: settings with odd values in one place, a run, one hedged call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from probe_servers import Exchange, Script, Scripted

from hedgectl.probe import prompts, providers
from hedgectl.probe.caps import Caps
from hedgectl.probe.hedged import HedgeRules
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.records import CallRecord
from hedgectl.probe.session import Session
from hedgectl.probe.settings import ProbeSettings

RULES = HedgeRules("first_token", "first_token", delay_s=0.15, total_s=3.0, attempt_s=2.5)
PATIENT = replace(RULES, delay_s=1.0)  # where no copy may be due, however busy the machine is
LONG = replace(RULES, total_s=120.0, attempt_s=110.0)  # where no deadline may strike, however busy the machine is
both = pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])


def settings(url: str, **given: Any) -> ProbeSettings:
    base = ProbeSettings(
        url=url,
        provider=providers.choose(url, None),
        rules=RULES,
        prompts=prompts.built_in(),
        caps=Caps(requests=1, hedges=10),
        model="m",
        requests=1,
        rates=(50.0,),
        uniform=True,
        arms="interleaved",
        budget_ratio=1.0,
        metrics=(),
        stop_after_429=100,
        stop_after_errors=100,
        stop_error_share=1.0,
    )
    return replace(base, **given)


def hedged_only(plan: Callable[..., Any]) -> Callable[..., Any]:
    return lambda blocks: [replace(p, arm="hedged") for p in plan(blocks)]


async def run(s: ProbeSettings, *, all_hedged: bool = True) -> tuple[Outcome, list[str]]:
    shown: list[str] = []
    session = Session(s, sink=lambda call, text: shown.append(text))
    if all_hedged:
        session.plan = hedged_only(session.plan)  # type: ignore[method-assign]
    outcome = await session.run()
    assert session.ledger.open == 0
    assert all(a.status is not None for c in outcome.everything for a in c.attempts)
    return outcome, shown


def one(script: Script, *, http2: bool = False, **given: Any) -> tuple[CallRecord, list[str], Scripted]:
    """One hedged request against the script."""

    async def go() -> tuple[CallRecord, list[str], Scripted]:
        async with Scripted(script, http2=http2) as server:
            outcome, shown = await run(settings(server.url, http2=http2, **given))
            return outcome.calls[0], shown, server

    return asyncio.run(go())


async def answer(x: Exchange, *words: str, gap: float = 0.0) -> None:
    for word in words:
        if gap and not await x.wait(gap):
            return
        x.token(word)
    x.end()


async def quick(x: Exchange) -> None:
    x.start()
    await answer(x, "ok")


def many(n: int, **given: Any) -> dict[str, Any]:
    return {"requests": n, "caps": Caps(requests=n, hedges=n), "rates": (200.0,), **given}


async def plain(s: Any) -> Outcome:
    return (await run(s, all_hedged=False))[0]
