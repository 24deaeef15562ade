"""The hedged call against scripted servers: who wins, what the loser's server sees, what is never sent or shown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from probe_runs import PATIENT, RULES, answer, both, one, run, settings
from probe_servers import DONE, Exchange, Scripted, chunk, usage

from hedgectl.probe.caps import Caps
from hedgectl.probe.outcome import Outcome


@both
def test_a_fast_primary_needs_no_copy(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        x.start()
        await answer(x, "a", "b", gap=0.01)

    call, shown, server = one(script, http2=http2, rules=PATIENT)
    assert len(server.exchanges) == 1
    assert call.status == "ok"
    assert call.winner == 0
    assert "".join(shown) == "ab"


@both
def test_slow_first_token_lets_the_copy_win_and_the_loser_is_cancelled_before_its_next_token(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        x.start()  # headers at once: they are no token
        if x.is_copy:
            await answer(x, "copy ", "wins", gap=0.05)
        else:
            await answer(x, "NEVER ", "SHOWN", gap=0.6)

    call, shown, server = one(script, http2=http2)
    primary, copy = server.exchanges
    assert call.hedge_won
    assert "".join(shown) == "copy wins"
    assert [a.error_kind for a in call.attempts] == ["loser", None]
    assert primary.tokens == 0, "the server saw the cancel only after its next token"
    assert primary.gone_at is not None
    assert copy.finished
    # the copy goes out on a connection of its own, with an id that is no prefix of the first one's
    ids = [x.headers["x-request-id"] for x in server.exchanges]
    assert len(set(ids)) == 2
    assert len({len(i) for i in ids}) == 1
    assert copy.headers["x-hedge-of"] == ids[0]


@both
def test_a_copy_that_loses_is_cancelled_before_its_next_token(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        x.start()
        if x.is_copy:
            await answer(x, "late", gap=1.0)
        else:
            await x.wait(0.3)
            await answer(x, "one ", "two ", "three", gap=0.02)

    call, shown, server = one(script, http2=http2)
    copy = server.exchanges[1]
    assert call.winner == 0
    assert call.hedges == 1
    assert "".join(shown) == "one two three"
    assert copy.tokens == 0
    assert copy.gone_at is not None


@both
def test_the_winner_of_a_stream_is_never_switched(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        x.start()
        x.token("first ")
        await answer(x, "after a stall", gap=0.7)

    call, shown, server = one(script, http2=http2, rules=replace(RULES, delay_s=0.5))
    assert len(server.exchanges) == 1, "a stall after the first token brings no copy"
    assert call.status == "ok"
    assert "".join(shown) == "first after a stall"


@both
def test_a_stall_in_mid_stream_ends_at_the_attempts_own_timeout_as_a_lower_bound(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        x.start()
        x.token("only")
        await x.wait(30)

    call, _, server = one(script, http2=http2, rules=replace(PATIENT, attempt_s=0.6))
    assert (call.status, call.error_kind) == ("censored", "timeout")
    assert call.attempts[0].first_token_ns is not None
    assert len(server.exchanges) == 1
    assert server.exchanges[0].gone.is_set()


@both
def test_one_deadline_for_both_copies_counted_from_the_plan(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        x.start()
        await x.wait(30)

    call, shown, server = one(script, http2=http2, rules=replace(RULES, total_s=0.6, attempt_s=0.59))
    assert (call.status, call.error_kind) == ("censored", "timeout")
    assert len(server.exchanges) == 2
    assert shown == []
    ends = [call.since_plan(a.ended_ns) or 0 for a in call.attempts]
    # the copy started 150 ms later and still ends with the deadline, not 590 ms after its own start
    assert max(ends) < 0.7e9


@both
def test_a_fast_429_never_wins_and_brings_no_copy(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        x.start(429, retry_after="2")
        x.finish()

    call, shown, server = one(script, http2=http2, rules=PATIENT)
    assert (call.status, call.error_kind) == ("error", "rate_limited")
    assert call.attempts[0].retry_after_s == 2.0
    assert len(server.exchanges) == 1
    assert shown == []


@both
def test_a_copy_that_is_refused_at_once_does_not_beat_a_slow_primary(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        if x.is_copy:
            x.start(503)
            x.finish()
        else:
            x.start()
            await answer(x, "slow but sure", gap=0.4)

    call, shown, _ = one(script, http2=http2)
    assert call.status == "ok"
    assert call.winner == 0
    assert [a.error_kind for a in call.attempts] == [None, "upstream_status"]
    assert "".join(shown) == "slow but sure"


@both
def test_both_fail_and_the_caller_gets_the_primarys_error(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        await x.wait(0.1 if x.is_copy else 0.3)
        x.start(500 if x.is_copy else 502)
        x.finish()

    call, shown, server = one(script, http2=http2)
    assert (call.status, call.error_kind) == ("error", "upstream_status")
    assert len(server.exchanges) == 2
    assert call.winner is None
    assert shown == []


@both
def test_a_reset_before_the_first_token_is_an_error(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        x.start()
        await x.wait(0.03)
        x.reset()

    call, _, server = one(script, http2=http2, rules=PATIENT)
    assert call.status == "error"
    assert call.error_kind in ("reset", "protocol")
    assert len(server.exchanges) == 1


@both
def test_a_reset_in_mid_stream_fails_the_request_and_is_not_rescued(http2: bool) -> None:
    async def script(x: Exchange) -> None:
        x.start()
        x.token("half")
        await x.wait(0.03)
        x.reset()

    call, shown, server = one(script, http2=http2, rules=replace(PATIENT, retry=True))
    assert call.status == "error"
    assert call.winner == 0
    assert len(server.exchanges) == 1
    assert "".join(shown) == "half"


def test_a_retry_of_a_fast_failure_only_if_asked_and_out_of_the_budget() -> None:
    async def script(x: Exchange) -> None:
        if x.number == 0:
            x.start(500)
            x.finish()
        else:
            x.start()
            await answer(x, "second try")

    asked, shown, _ = one(script, rules=replace(RULES, retry=True))
    assert asked.status == "ok"
    assert [a.cause for a in asked.attempts] == ["primary", "retry"]
    assert "".join(shown) == "second try"
    refused, _, server = one(script, rules=replace(RULES, retry=True), budget_burst=0.0)
    assert refused.status == "error"
    assert len(server.exchanges) == 1


def test_a_server_that_ignores_the_cancel_changes_nothing_for_the_caller() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        if x.is_copy:
            await answer(x, "copy", gap=0.02)
        else:
            await asyncio.sleep(0.8)  # goes on whatever the client does
            for _ in range(5):
                x.token("deaf")
                await asyncio.sleep(0.02)
            x.end()

    call, shown, _ = one(script)
    assert call.hedge_won
    assert "".join(shown) == "copy"
    assert call.since_plan(call.ended_ns) < 0.8e9  # type: ignore[operator]


def test_headers_are_a_trigger_only_if_the_policy_says_so() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        await answer(x, "t", gap=0.4)

    by_headers = replace(RULES, trigger="response_headers", commit="response_headers")
    call, _, server = one(script, rules=by_headers)
    assert len(server.exchanges) == 1
    assert call.status == "ok"
    by_token, _, server = one(script)
    assert len(server.exchanges) == 2
    assert by_token.status == "ok"


def test_whole_answers_race_to_their_end() -> None:
    async def script(x: Exchange) -> None:
        await x.wait(0.05 if x.is_copy else 1.0)
        x.start()
        text = "copy" if x.is_copy else "primary"
        body = '{"choices":[{"message":{"content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
        x.send((body % text).encode())
        x.finish()

    rules = replace(RULES, trigger="response", commit="response")
    call, shown, server = one(script, rules=rules, stream=False)
    assert call.hedge_won
    assert shown == ["copy"]
    assert server.exchanges[0].body["stream"] is False
    assert server.exchanges[0].gone.is_set()


def test_role_and_empty_chunks_are_no_token_and_reasoning_is_no_content() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        x.send(chunk(role=True) + chunk(""))
        await x.wait(0.1)
        x.send(chunk(reasoning_content="hm"))
        await x.wait(0.1)
        await answer(x, "visible")

    call, shown, _ = one(script, rules=PATIENT)
    a = call.attempts[0]
    assert a.first_byte_ns is not None
    assert a.first_token_ns is not None
    assert a.first_content_ns is not None
    assert a.first_byte_ns + 50e6 < a.first_token_ns
    assert a.first_token_ns + 50e6 < a.first_content_ns
    assert "".join(shown) == "visible"


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"", "empty_answer"),
        (chunk(role=True) + DONE, "empty_answer"),
        (chunk("half"), "cut_stream"),
        (chunk("half") + b'data: {"error":{"message":"engine died","code":500}}\n\n' + DONE, "upstream"),
        (b"data: {broken\n\n", "malformed"),
    ],
    ids=["nothing", "role_only", "no_end", "error_event", "no_json"],
)
def test_a_200_is_not_yet_a_success(payload: bytes, kind: str) -> None:
    async def script(x: Exchange) -> None:
        x.start()
        if payload:
            x.send(payload)
        x.finish()

    call, _, _ = one(script, rules=PATIENT)
    assert (call.status, call.error_kind) == ("error", kind)


def test_usage_is_read_and_the_last_byte_is_the_end() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        x.send(chunk("a") + chunk("b", finish="length") + usage(11, 2) + DONE)
        x.finish()

    call, _, _ = one(script, rules=PATIENT)
    a = call.attempts[0]
    assert (a.usage.prompt, a.usage.completion, a.completion_tokens) == (11, 2, 2)
    assert a.pieces == 2


def test_budget_in_flight_and_burst_are_kept() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        await answer(x, "t", gap=0.5)

    async def go(**given: Any) -> Outcome:
        async with Scripted(script) as server:
            s = settings(server.url, requests=10, caps=Caps(requests=10, hedges=10), rates=(200.0,), **given)
            return (await run(s))[0]

    flying = asyncio.run(go(hedges_in_flight=2))
    assert sum(c.hedges for c in flying.calls) == 2
    burst = asyncio.run(go(budget_ratio=0.0, budget_burst=3.0))
    assert sum(c.hedges for c in burst.calls) == 3
    assert sum(c.refused == "budget" for c in burst.calls) == 7


def test_a_loser_may_be_left_alone_if_the_policy_says_so() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        await answer(x, "copy" if x.is_copy else "primary", gap=0.02 if x.is_copy else 0.5)

    call, shown, server = one(script, rules=replace(RULES, cancel_losers=False))
    assert call.hedge_won
    assert shown == ["copy"]
    assert server.exchanges[0].finished
    assert [a.status for a in call.attempts] == ["ok", "ok"]


def test_a_copy_never_takes_a_connection_from_the_primaries_pool() -> None:
    """Pooled connections may be the very thing that hangs: the copy opens its own although others are idle."""

    async def script(x: Exchange) -> None:
        x.start()
        if x.number < 2:
            await x.wait(0.5)  # the first two overlap, so that two connections are open
        elif not x.is_copy and not await x.wait(5.0):
            return
        await answer(x, "t")

    async def go() -> Outcome:
        async with Scripted(script) as server:
            rules = replace(RULES, delay_s=1.0, total_s=9.0, attempt_s=8.0)
            caps = Caps(requests=3, hedges=3)
            return (await run(settings(server.url, requests=3, caps=caps, rates=(3.0,), rules=rules)))[0]

    _, copy = asyncio.run(go()).calls[2].attempts
    assert copy.connected
    assert copy.status == "ok"
