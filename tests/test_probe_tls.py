"""Probing over TLS, HTTP/1.1 and 2: a private authority is trusted when named, and nothing is sent to anybody else."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
from probe_runs import RULES, answer, both, run, settings
from probe_servers import Exchange, Script, Scripted

from hedgectl.errors import UnreachableError
from hedgectl.probe import result
from hedgectl.probe import run as probe_run
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.settings import Secrets

AUTHORITY = trustme.CA()


@pytest.fixture
def ca_file(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(str(path))
    return str(path)


def context(*, http2: bool, name: str = "127.0.0.1") -> ssl.SSLContext:
    """A server's side, with a certificate of the test's own authority for ``name``."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert(name).configure_cert(made)
    made.set_alpn_protocols(["h2"] if http2 else ["http/1.1"])
    return made


def probed(script: Script, *, serve_http2: bool, name: str = "127.0.0.1", **given: object) -> tuple[Outcome, Scripted]:
    """One hedged request to a TLS server."""

    async def go() -> tuple[Outcome, Scripted]:
        async with Scripted(script, http2=serve_http2, tls=context(http2=serve_http2, name=name)) as server:
            outcome, _ = await run(settings(server.url, rules=RULES, **given))
            return outcome, server

    return asyncio.run(go())


async def slow_primary(x: Exchange) -> None:
    """The primary is silent for a second and would then send a token; the copy answers at once."""
    x.start()
    if not x.is_copy and not await x.wait(1.0):
        return
    await answer(x, "a", "b")


@both
def test_the_copy_wins_and_the_losers_server_sees_the_cancel_before_its_next_token(http2: bool, ca_file: str) -> None:
    outcome, server = probed(slow_primary, serve_http2=http2, http2=http2, ca_file=ca_file)
    (call,) = outcome.calls
    assert (call.status, call.hedge_won, call.attempts[0].error_kind) == ("ok", True, "loser")
    primary = next(x for x in server.exchanges if not x.is_copy)
    assert primary.gone_at is not None
    assert primary.tokens == 0


def test_a_server_that_offers_no_http2_is_asked_in_http1(ca_file: str) -> None:
    outcome, _ = probed(slow_primary, serve_http2=False, http2=True, ca_file=ca_file)
    assert outcome.calls[0].status == "ok"


@both
def test_an_unknown_authority_or_another_name_gets_no_request_and_no_key(http2: bool, ca_file: str) -> None:
    for name, trusted in (("127.0.0.1", None), ("elsewhere.example", ca_file)):
        outcome, server = probed(
            slow_primary, serve_http2=http2, http2=http2, name=name, ca_file=trusted, secrets=Secrets("hunter22")
        )
        (call,) = outcome.calls
        assert (call.status, call.error_kind) == ("error", "connect")
        assert server.exchanges == []
        doc = result.document(outcome)
        assert isinstance(probe_run.verdict(outcome, doc), UnreachableError)
        assert "hunter22" not in str(doc)


def test_the_environments_authorities_are_trusted(ca_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", ca_file)
    outcome, _ = probed(slow_primary, serve_http2=False)
    assert outcome.calls[0].status == "ok"
