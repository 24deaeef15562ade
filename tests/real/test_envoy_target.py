"""Envoy accepts every output for Envoy and Istio, and a running Envoy obeys them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from envoy_live import Live, free_ports, running
from targets_real import POLICIES, document, hedging, run, system, write

from hedgectl import emitters, policy

pytestmark = pytest.mark.real

DELAY_S = 0.3  # of `hedging()`
EARLY_S = 0.02  # Envoy counts from when its loop woke, on a busy machine some time before it reads the request
PAST_DELAY_S = DELAY_S + 0.5


@pytest.fixture
def envoy() -> str:
    return system("HEDGECTL_ENVOY")


def validate(envoy: str, config: Path) -> None:
    done = run(envoy, "--mode", "validate", "-c", config, "-l", "warn")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[warning]" not in done.stderr, done.stderr


def bootstrap(found: policy.PolicyDocument, ports: list[int], **options: str) -> dict[str, Any]:
    """A bootstrap with the emitted virtual host and cluster spliced into one of the test's own."""
    listen, admin, *upstreams = ports
    options = {
        "listen": f"127.0.0.1:{listen}",
        "admin": f"127.0.0.1:{admin}",
        "endpoints": ",".join(f"127.0.0.1:{port}" for port in upstreams),
        **options,
    }
    parsed: dict[str, Any] = yaml.safe_load(emitters.emit(found, "envoy", form="full", options=options).text)
    return parsed


def host_of(config: dict[str, Any]) -> dict[str, Any]:
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    host: dict[str, Any] = manager["route_config"]["virtual_hosts"][0]
    return host


def with_istio(config: dict[str, Any], found: policy.PolicyDocument) -> dict[str, Any]:
    """What istiod would make of the emitted resources: routes, patches merged by route name, the cluster's budget."""
    config = copy.deepcopy(config)
    resources = list(yaml.safe_load_all(emitters.emit(found, "istio").text))
    kinds = {each["kind"]: each["spec"] for each in resources}
    routes = []
    for http in kinds["VirtualService"]["http"]:
        match: dict[str, Any] = {"prefix": "/"}
        for wanted in http.get("match", []):
            uri = wanted.get("uri", {})
            if "regex" in uri:
                match = {"safe_regex": {"regex": uri["regex"]}}
            elif uri:
                match = dict(uri)
            headers = [(name, how, False) for name, how in wanted.get("headers", {}).items()]
            headers += [(name, how, True) for name, how in wanted.get("withoutHeaders", {}).items()]
            match["headers"] = [
                {
                    "name": name,
                    "string_match": {"safe_regex": {"regex": how["regex"]}} if "regex" in how else how,
                    **({"invert_match": True} if inverted else {}),
                }
                for name, how, inverted in headers
            ]
        action = {"cluster": "llm_backends"}
        if "timeout" in http:
            assert http["timeout"] == "0s" or http["timeout"].endswith("ms")
            action["timeout"] = "0s" if http["timeout"] == "0s" else f"{int(http['timeout'][:-2]) / 1000}s"
        assert http.get("retries", {"attempts": 0}) == {"attempts": 0}
        routes.append({"name": http["name"], "match": match, "route": action})
    for patch in kinds["EnvoyFilter"]["configPatches"]:
        named = [r for r in routes if r["name"] == patch["match"]["routeConfiguration"]["vhost"]["route"]["name"]]
        assert len(named) == 1, "a patch that matches no route does nothing, in silence"
        named[0]["route"] |= patch["patch"]["value"]["route"]
    host_of(config)["routes"] = routes
    cluster = config["static_resources"]["clusters"][0]
    cluster.pop("circuit_breakers", None)
    cluster.pop("outlier_detection", None)
    if "DestinationRule" in kinds:
        traffic = kinds["DestinationRule"]["trafficPolicy"]
        budget = traffic["retryBudget"]
        assert budget["percent"] > 0  # 0 would be taken for the default of 20 %
        cluster["circuit_breakers"] = {
            "thresholds": [
                {
                    "retry_budget": {
                        "budget_percent": {"value": budget["percent"]},
                        "min_retry_concurrency": budget["minRetryConcurrency"],
                    }
                }
            ]
        }
    return config


def dump(config: dict[str, Any], path: Path) -> Path:
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_envoy_accepts(name: str, envoy: str, tmp_path: Path) -> None:
    validate(envoy, write(POLICIES[name], "envoy", tmp_path / "full.yaml", form="full"))
    # the snippet is the same, spliced by hand
    config = bootstrap(document(hedging(decision="do_not_hedge")), free_ports(4))
    snippet = yaml.safe_load(write(POLICIES[name], "envoy", tmp_path / "snippet.yaml").read_text(encoding="utf-8"))
    host_of(config).update(snippet["virtual_host"])
    config["static_resources"]["clusters"][0].update(snippet["cluster"])
    validate(envoy, dump(config, tmp_path / "spliced.yaml"))


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_envoy_accepts_what_istio_would_make_of_it(name: str, envoy: str, tmp_path: Path) -> None:
    validate(envoy, dump(with_istio(bootstrap(POLICIES[name], free_ports(4)), POLICIES[name]), tmp_path / "istio.yaml"))


def test_envoy_refuses_what_the_lints_call_refused(envoy: str, tmp_path: Path) -> None:
    for percent in ({"value": 150.0}, 5.0):
        config = bootstrap(document(hedging()), free_ports(4))
        budget = config["static_resources"]["clusters"][0]["circuit_breakers"]["thresholds"][0]["retry_budget"]
        budget["budget_percent"] = percent
        path = dump(config, tmp_path / "bad.yaml")
        assert "bad_percent" in [lint.code for lint in emitters.check(path.read_text(encoding="utf-8"), "envoy")]
        assert run(envoy, "--mode", "validate", "-c", path).returncode != 0


def live(
    envoy: str,
    tmp_path: Path,
    found: policy.PolicyDocument,
    body: Callable[[Live], Awaitable[None]],
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda config: config,
    **options: str,
) -> None:
    """Runs ``body`` against an Envoy with the emitted bootstrap."""
    ports = free_ports(4)
    path = dump(change(bootstrap(found, ports, **options)), tmp_path / "live.yaml")

    async def scene() -> None:
        async with running(envoy, path, ports[0], ports[1], ports[2:]) as one:
            await body(one)

    asyncio.run(asyncio.wait_for(scene(), 90))


async def hedged_to_another_host(one: Live) -> None:
    slow, fast = one.upstreams.ports
    one.upstreams.slow_port = slow
    hedges = 0
    for _ in range(6):
        answer, seen = await one.send()
        assert answer.status == 200
        assert seen.ports[-1] == fast
        if len(seen.ports) > 1:
            hedges += 1
            assert seen.ports == [slow, fast]
            assert answer.body == b"answer 1"
            # the slow upstream never answers, so the copy was sent by the clock; not before the emitted delay
            assert seen.times[1] - seen.sent >= DELAY_S - EARLY_S
            await asyncio.sleep(0.1)
            assert seen.cancelled == [0]
    assert hedges >= 2


def test_a_slow_upstream_is_hedged_at_the_delay_to_the_other_host(envoy: str, tmp_path: Path) -> None:
    live(envoy, tmp_path, POLICIES["small"], hedged_to_another_host)


def test_istio_output_hedges_the_same(envoy: str, tmp_path: Path) -> None:
    live(envoy, tmp_path, POLICIES["small"], hedged_to_another_host, change=lambda c: with_istio(c, POLICIES["small"]))


def test_copies_stay_within_the_budget(envoy: str, tmp_path: Path) -> None:
    async def body(one: Live) -> None:
        waiting = [asyncio.ensure_future(one.send("wait")) for _ in range(40)]
        await asyncio.sleep(PAST_DELAY_S)
        attempts = sum(len(seen.ports) for seen in one.upstreams.seen.values())
        one.upstreams.release.set()
        answers = await asyncio.gather(*waiting)
        assert all(answer.status == 200 for answer, _ in answers)
        assert len(one.upstreams.seen) == 40
        assert 41 <= attempts <= 42  # 5 % of 40 in flight are 2

    live(envoy, tmp_path, POLICIES["small"], body)


def test_excluded_requests_are_left_alone(envoy: str, tmp_path: Path) -> None:
    async def body(one: Live) -> None:
        hung = {
            "path": asyncio.ensure_future(one.send("wait", path="/v1/tools/run")),
            "opted out": asyncio.ensure_future(one.send("wait", x_hedge="off", x_llm_segment="pro")),
            "stream": asyncio.ensure_future(one.send("wait", accept="text/event-stream", x_llm_segment="pro")),
            "segment": asyncio.ensure_future(one.send("wait", x_llm_segment="free")),
            "unknown segment": asyncio.ensure_future(one.send("wait")),
        }
        await asyncio.sleep(PAST_DELAY_S)
        one.upstreams.release.set()
        for name, request in hung.items():
            answer, seen = await request
            assert (answer.status, len(seen.ports)) == (200, 1), name
        one.upstreams.release.clear()
        _, seen = await one.send("hang/ok", x_llm_segment="pro")
        assert len(seen.ports) == 2

    live(envoy, tmp_path, POLICIES["rules"], body)


def test_a_stream_that_has_begun_is_left_alone(envoy: str, tmp_path: Path) -> None:
    async def body(one: Live) -> None:
        answer, seen = await one.send("stream")
        assert answer == type(answer)(200, b"c0" * 6)  # whole, from the first attempt, past the delay
        assert len(seen.ports) == 1

    live(envoy, tmp_path, POLICIES["small"], body)


def test_a_late_error_of_the_first_attempt_does_not_beat_the_copy(envoy: str, tmp_path: Path) -> None:
    async def body(one: Live) -> None:
        answer, seen = await one.send("503@450/200@600")
        assert (answer.status, answer.body) == (200, b"answer 1")
        assert len(seen.ports) == 2

    live(envoy, tmp_path, POLICIES["small"], body)

    def without_5xx(config: dict[str, Any]) -> dict[str, Any]:
        for route in host_of(config)["routes"]:
            if "retry_policy" in route["route"]:
                route["route"]["retry_policy"]["retry_on"] = "reset"
        text = yaml.safe_dump(config)
        assert "no_5xx" in [lint.code for lint in emitters.check(text, "envoy")]
        return config

    async def lost(one: Live) -> None:
        answer, _ = await one.send("503@450/200@600")
        assert answer.status == 503  # what the lint warns of

    live(envoy, tmp_path, POLICIES["small"], lost, change=without_5xx)


def test_bodies_up_to_the_limit_are_hedged(envoy: str, tmp_path: Path) -> None:
    async def body(one: Live) -> None:
        answer, seen = await one.send("hang/ok", body=b"x" * 1_500_000)
        assert (answer.status, len(seen.ports)) == (200, 2)
        late = asyncio.ensure_future(one.send("wait", body=b"x" * 5_000_000))
        await asyncio.sleep(PAST_DELAY_S)
        one.upstreams.release.set()
        _, seen = await late
        assert len(seen.ports) == 1  # as the loss says

    live(envoy, tmp_path, POLICIES["small"], body)


def test_three_attempts(envoy: str, tmp_path: Path) -> None:
    async def body(one: Live) -> None:
        answer, seen = await one.send("hang/hang/ok")
        assert (answer.status, len(seen.ports)) == (200, 3)

    found = document(hedging(max_attempts=3, budget=None))
    live(envoy, tmp_path, found, body)


def test_the_deadline_holds_for_all_attempts(envoy: str, tmp_path: Path) -> None:
    async def body(one: Live) -> None:
        answer, seen = await one.send("hang")
        assert (answer.status, len(seen.ports)) == (504, 2)

    live(envoy, tmp_path, document(hedging(deadline=policy.Deadline(900.0))), body)


async def never_hedges(one: Live) -> None:
    asked = {
        "x_envoy_hedge_on_per_try_timeout": "true",
        "x_envoy_upstream_rq_per_try_timeout_ms": "200",
        "x_envoy_max_retries": "1",
        "x_envoy_retry_on": "5xx",
    }
    plain = asyncio.ensure_future(one.send("wait"))
    by_header = asyncio.ensure_future(one.send("wait", **asked))
    await asyncio.sleep(PAST_DELAY_S)
    one.upstreams.release.set()
    for request in (plain, by_header):
        _, seen = await request
        assert len(seen.ports) == 1


def test_off_is_off(envoy: str, tmp_path: Path) -> None:
    def inherits(config: dict[str, Any]) -> dict[str, Any]:
        on = bootstrap(POLICIES["small"], free_ports(4))
        hedged = next(r["route"] for r in host_of(on)["routes"] if "retry_policy" in r["route"])
        host_of(config).update(retry_policy=hedged["retry_policy"], hedge_policy=hedged["hedge_policy"])
        return config

    live(envoy, tmp_path, POLICIES["off"], never_hedges)

    async def inherited(one: Live) -> None:
        # a policy of the virtual host would hedge: the emitted route says off, so a retry gives the first attempt up
        answer, seen = await one.send("hang/ok")
        assert answer.status == 200
        await asyncio.sleep(0.1)
        assert seen.cancelled == [0]

    live(envoy, tmp_path, POLICIES["off"], inherited, change=inherits)


def test_the_runtime_key_is_a_live_switch(envoy: str, tmp_path: Path) -> None:
    async def body(one: Live) -> None:
        await one.switch("hedgectl.all", "0")
        late = asyncio.ensure_future(one.send("wait"))
        await asyncio.sleep(PAST_DELAY_S)
        one.upstreams.release.set()
        _, seen = await late
        assert len(seen.ports) == 1
        await one.switch("hedgectl.all", "100")
        _, seen = await one.send("hang/ok")
        assert len(seen.ports) == 2

    live(envoy, tmp_path, POLICIES["small"], body)


def test_scopes_have_delays_of_their_own(envoy: str, tmp_path: Path) -> None:
    async def body(one: Live) -> None:
        _, code = await one.send("hang/ok", x_llm_model="code")
        assert code.times[1] - code.sent >= 0.7 - EARLY_S
        embed = asyncio.ensure_future(one.send("wait", x_llm_model="embed"))
        other = asyncio.ensure_future(one.send("wait", x_llm_model="other"))
        await asyncio.sleep(1.0)
        one.upstreams.release.set()
        for request in (embed, other):
            _, seen = await request
            assert len(seen.ports) == 1

    live(envoy, tmp_path, POLICIES["scopes"], body)
