"""Spelling: names that look like code, durations, windows; each file read back by a real reader of its language."""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from policy_documents import document, full, hedging

from hedgectl import emitters, policy
from hedgectl.emitters import _text, _yaml

NASTY = [
    "x'; DROP TABLE requests; --",
    '$(touch pwned) `id` "quoted" \\ back',
    "${HOME} and $HOME",
    "{{ .Values }} {% x %} ${jndi:ldap://x}",
    "=1+1",
    "yes",
    "1.840s",
    "null",
    "- a: b # c",
    "naïve 模型 🙂",
    "tab\there",
    "line\nbreak",
    "del\x7f nel\x85 sep\u2028 bom\ufeff",
    "a:b/c@d",
    "*/ \\(x) </script>",
    " ",
]


def named(name: str) -> policy.PolicyDocument:
    return document(hedging(scope=policy.Scope(model=name, route="/v1/x")), hedging(scope=policy.Scope(model="other")))


def scopes_of(found: Any) -> list[str]:
    return [scope["model"] for scope in found["scopes"]]


@pytest.mark.parametrize("name", NASTY)
def test_names_survive_each_language(name: str) -> None:
    found = named(name)
    assert json.loads(emitters.emit(found, "json").text)["policies"][0]["scope"]["model"] == name
    assert scopes_of(json.loads(emitters.emit(found, "client").text))[0] == name
    assert tomllib.loads(emitters.emit(found, "toml").text)["policies"][0]["scope"]["model"] == name
    routes = yaml.safe_load(emitters.emit(found, "envoy").text)["virtual_host"]["routes"]
    assert routes[0]["match"]["headers"][0]["string_match"]["exact"] == name
    service = next(yaml.safe_load_all(emitters.emit(found, "istio").text))
    assert service["spec"]["http"][0]["match"][0]["headers"]["x-llm-model"]["exact"] == name
    assert yaml.safe_load(emitters.emit(found, "prometheus").text)["groups"]
    assert json.loads(emitters.emit(found, "polly").text)["HttpClients"]


@pytest.mark.parametrize("name", NASTY)
def test_sh_reads_env_files_as_texts(name: str, tmp_path: Any) -> None:
    """Sourced by ``sh``: nothing is run or expanded, and the name comes back (percent-encoded where no spelling serves)."""
    emitted = emitters.emit(named(name), "env")
    file = tmp_path / "hedge.env"
    file.write_text(emitted.text, encoding="utf-8")
    script = f'. {shlex.quote(str(file))}; printf %s "$HEDGE_1_MODEL"'
    run = subprocess.run(["sh", "-c", script], cwd=tmp_path, env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True)
    assert run.stderr == b""
    assert not (tmp_path / "pwned").exists()
    encoded = [loss for loss in emitted.losses if loss.field == "scope.model"]
    expected = encoded[0].nearest.removeprefix("percent-encoded: ") if encoded else name
    assert run.stdout.decode() == expected
    assert emitted.lints == ()


@pytest.mark.parametrize("name", NASTY)
def test_comments_and_constants_cannot_be_left(name: str) -> None:
    for target, marker in (("typescript", "//"), ("swift", "//"), ("envoy", "#"), ("toml", "#"), ("env", "#")):
        text = emitters.emit(named(name), target).text
        head = text.splitlines()[: 2 + 2]
        assert all(line.startswith(marker) for line in head), target
        assert not any(letter in text for letter in "\x85\u2028\x7f\ufeff"), target


def test_swift_escapes_what_would_be_code() -> None:
    text = emitters.emit(named('\\(x) "q"\n'), "swift").text
    assert '"\\\\(x) \\"q\\"\\u{a}"' in text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_quoted_is_read_back_by_json_yaml_and_toml(text: str) -> None:
    spelled = _text.quoted(text)
    assert json.loads(spelled) == text
    assert tomllib.loads(f"a = {spelled}")["a"] == text
    assert yaml.safe_load(f"a: {spelled}")["a"] == text


VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**40), 2**40),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.sampled_from([*NASTY, "on", "~", "1e3", "0x1F", "1_000", "12:30:45", "2026-11-29", "<<", "!x", "&a", "@x"]),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5, alphabet="abc@:- '\"#"), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "b.c", "@type", "x y"]), VALUES, min_size=1))
def test_yaml_is_read_back(value: dict[str, Any]) -> None:
    assert yaml.safe_load(_yaml.dump(value)) == value


def test_toml_is_the_policy_itself() -> None:
    """Read back and parsed, it has the identity of the policy it was written from."""
    read = policy.parse(full())
    found = tomllib.loads(emitters.emit(read, "toml").text)
    assert [each.pop("enabled") for each in found["policies"]] == [True, False]
    assert policy.parse(found).policy_id() == read.policy_id() == found["policy_id"]


def test_client_has_milliseconds_and_seconds_from_one_integer() -> None:
    for delay in (1.0, 999.6, 1850.4, 11999.0):
        found = json.loads(emitters.emit(document(hedging(delay_ms=delay)), "client").text)
        assert found["hedgeAfterMs"] == found["hedgeAfterSeconds"] * 1000 == round(delay)


def test_client_of_the_full_policy() -> None:
    found = json.loads(emitters.emit(policy.parse(full()), "client").text)
    assert found["expiresAt"] == "2026-12-06T04:15:00Z"  # as_of + ttl
    assert found["enabled"] is False  # who knows only the flat form must not hedge both scopes
    chat, embed = found["scopes"]
    assert chat["enabled"] is True
    assert chat["perAttemptTimeoutMs"] < chat["totalTimeoutMs"]
    assert chat["hedgeWindowsUtc"] == ["mon-fri 22:00-24:00", "tue-sat 00:00-02:00"]
    assert (chat["experimentBlockSeconds"], chat["experimentSeed"]) == (1800, 1)
    assert chat["allowedSegments"] == ["pro", "team"]
    assert (chat["excludeStreaming"], chat["excludeToolCalls"], chat["maxChoices"]) == (True, True, 1)
    assert (chat["budgetPercent"], chat["budgetBurst"]) == (5, 2)  # each isolate has a bucket of its own
    assert embed == {"enabled": False, "model": "embed"}


def test_a_single_scope_is_flat() -> None:
    found = json.loads(emitters.emit(document(hedging(scope=policy.Scope("chat"))), "client").text)
    assert (found["enabled"], found["model"], "scopes" in found) == (True, "chat", False)


@pytest.mark.parametrize(
    ("ms", "protobuf", "nine", "timespan"),
    [
        (1850, "1.850s", "1.850000000s", "00:00:01.850"),
        (900, "0.900s", "0.900000000s", "00:00:00.900"),
        (1, "0.001s", "0.001000000s", "00:00:00.001"),
        (20000, "20.000s", "20.000000000s", "00:00:20"),
        (90_061_000, "90061.000s", "90061.000000000s", "1.01:01:01"),
    ],
)
def test_durations(ms: int, protobuf: str, nine: str, timespan: str) -> None:
    assert (_text.seconds_text(ms), _text.seconds_9(ms), _text.timespan(ms)) == (protobuf, nine, timespan)


def test_a_delay_below_a_millisecond_is_not_zero() -> None:
    """0 means "at once" to gRPC and Polly, and "never" to Envoy."""
    for name in ("grpc", "polly", "envoy"):
        assert "0.001" in emitters.emit(document(hedging(delay_ms=0.2)), name).text


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ((1, 2, 3, 4, 5), "mon-fri"),
        ((7,), "sun"),
        ((1, 3, 4, 7), "mon,wed-thu,sun"),
        ((1, 2, 3, 4, 5, 6, 7), "mon-sun"),
    ],
)
def test_days(days: tuple[int, ...], expected: str) -> None:
    assert _text.days_text(days) == expected


def test_slugs_are_distinct() -> None:
    assert _text.slugs(["a b", "A-B", "", "a b 2"]) == ["a-b", "a-b-2", "all", "a-b-2-2"]


def test_the_default_rules_have_settings_of_their_own() -> None:
    """Swift has no general rules: whatever `recommend` writes by default must not switch its hedging off."""
    defaults = (
        policy.Rule("streamed", "=", True),
        policy.Rule("tools_offered", "=", False),
        policy.Rule("cache_hit", "=", False),
        policy.Rule("stored_state", "=", False),
        policy.Rule("n_choices", "=", 1.0),
        policy.Rule("batch", "=", False),
        policy.Rule("cached_ratio", "<", 0.9),
    )
    found = json.loads(emitters.emit(document(hedging("first_token", eligible=defaults)), "client").text)
    assert "otherRules" not in found
    assert (found["onlyStreaming"], found["cachedRatioBelow"]) == (True, 0.9)
    assert "enabled: true" in emitters.emit(document(hedging(eligible=defaults)), "swift").text


def test_swift_is_off_for_a_rule_that_it_cannot_say() -> None:
    odd = (policy.Rule("request_bytes", ">", 5.0),)
    found = emitters.emit(document(hedging(eligible=odd)), "swift")
    assert "enabled: false" in found.text
    assert "eligible.request_bytes" in [loss.field for loss in found.losses]


@pytest.mark.parametrize(("value", "part"), [(False, "are left alone"), (True, "every request of the route is hedged")])
def test_envoy_says_what_it_makes_of_streams(value: bool, part: str) -> None:
    found = emitters.emit(document(hedging(eligible=(policy.Rule("streamed", "=", value),))), "envoy")
    lost = next(loss.nearest for loss in found.losses if loss.field == "eligible.streamed")
    assert part in lost
    assert ("_streams" in found.text) is not value
