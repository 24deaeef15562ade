"""SSE cut anywhere, the API dialects, prompts, the template: pure, no sockets."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgectl.errors import HedgectlError, InputError, UsageError
from hedgectl.probe import prompts, providers
from hedgectl.probe.attempt import retry_after
from hedgectl.probe.providers import generic
from hedgectl.probe.sse import LineDecoder, SseDecoder
from hedgectl.probe.wire import Ask, Prompt, Usage

STREAM = (
    b"\xef\xbb\xbf: a comment\r\ndata: one\r\n\r\nevent: x\nid: 7\ndata:two\ndata: lines\n\n"
    b"data\n\n\rdata: caf\xc3\xa9\r\rretry: 5\n\ndata: [DONE]\n\ndata: cut"
)
EVENTS = ["one", "two\nlines", "", "café", "[DONE]"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    decoder = SseDecoder()
    bounds = [0, *sorted(cuts), len(STREAM)]
    found = [e for a, b in itertools.pairwise(bounds) for e in decoder.feed(STREAM[a:b])]
    assert found == EVENTS
    assert decoder.finish() == ["cut"]
    assert decoder.finish() == []


@given(st.lists(st.integers(0, 30), max_size=5))
def test_lines_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    data = b'{"a":1}\n\n{"b":"\xc3\xa9"}\r\n{"c":3}'
    decoder = LineDecoder()
    bounds = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    found = [e for a, b in itertools.pairwise(bounds) for e in decoder.feed(data[a:b])]
    assert found + decoder.finish() == ['{"a":1}', '{"b":"é"}', '{"c":3}']


def ask(url: str, **given_: Any) -> Ask:
    base: dict[str, Any] = {
        "url": url,
        "model": "m-1",
        "prompt": Prompt(({"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"})),
        "stream": True,
        "answer_tokens": 9,
        "attempt_id": "id-1",
        "key": "sk-secret",
    }
    return Ask(**base | given_)


@pytest.mark.parametrize(
    ("url", "name", "endpoint"),
    [
        ("http://h:1", "openai", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1/", "openai", "http://h:1/v1/chat/completions"),
        ("http://h/api/v1/chat/completions", "openai", "http://h/api/v1/chat/completions"),
        ("http://h/v1/completions", "openai-completions", "http://h/v1/completions"),
        ("https://h/v1/messages", "anthropic", "https://h/v1/messages"),
        ("https://h/v1beta/models/g:streamGenerateContent", "gemini", "https://h/v1beta/models/g"),
        (
            "https://generativelanguage.googleapis.com",
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/models",
        ),
    ],
)
def test_the_url_tells_the_api(url: str, name: str, endpoint: str) -> None:
    provider = providers.choose(url, None)
    assert provider.name == name
    assert provider.resolve(url) == endpoint


def test_an_unknown_api_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        providers.choose("http://h", "bedrock")
    assert "anthropic" in (caught.value.hint or "")


def test_openai_request_and_stream() -> None:
    p = providers.choose("http://h", "openai")
    wire = p.request(ask("http://h/v1/chat/completions", engine_id=True))
    body = json.loads(wire.body)
    assert body["max_tokens"] == 9
    assert body["stream_options"] == {"include_usage": True}
    assert body["rid"] == "id-1"
    assert dict(wire.headers)["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in repr(wire) + repr(ask("http://h"))
    assert "max_completion_tokens" in json.loads(p.request(ask("https://api.openai.com/v1/chat/completions")).body)
    assert "authorization" not in dict(p.request(ask("http://h/x", key=None)).headers)

    def piece(**choice: Any) -> Any:
        return p.piece(json.dumps({"choices": [{"index": 0, **choice}]}))

    assert not piece(delta={"role": "assistant", "content": ""}).token
    assert not piece(delta={"role": "assistant", "content": None}).token
    assert piece(delta={"content": "x"}).text == "x"
    assert piece(delta={"reasoning_content": "x"}).reasoning
    assert piece(delta={"reasoning": "x"}).reasoning
    assert piece(delta={"tool_calls": [{"index": 0}]}).tool
    assert piece(delta={}, finish_reason="stop").finished
    assert p.piece("[DONE]").last
    assert p.piece('{"error":{"message":"m"}}').error == "upstream"
    assert not p.piece('{"choices":[]}').token
    told = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}
    assert p.piece(json.dumps({"choices": [], "usage": told})).usage == Usage(9, 4, 3, None)
    for broken in ("", "[1]", "{", "null"):
        with pytest.raises(ValueError, match=r".*"):
            p.piece(broken)


def test_completions_ask_with_text() -> None:
    p = providers.choose("http://h/v1/completions", None)
    body = json.loads(p.request(ask("http://h/v1/completions")).body)
    assert body["prompt"] == "be brief\nhi"
    assert p.piece('{"choices":[{"text":"x","finish_reason":null}]}').text == "x"
    assert p.piece('{"choices":[{"text":"","finish_reason":"length"}]}').finished


def test_anthropic_request_and_stream() -> None:
    p = providers.choose("https://h/v1/messages", None)
    wire = p.request(ask("https://h/v1/messages"))
    body = json.loads(wire.body)
    assert body["system"] == "be brief"
    assert [m["role"] for m in body["messages"]] == ["user"]
    assert dict(wire.headers)["x-api-key"] == "sk-secret"
    start = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1}},
    }
    # cached tokens stand beside the input, and the first event's output count is a placeholder
    assert p.piece(json.dumps(start)).usage == Usage(12, None, 7)
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}
    assert p.piece(json.dumps(delta)).text == "x"
    thought = {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "x"}}
    assert p.piece(json.dumps(thought)).reasoning
    assert not p.piece('{"type":"ping"}').token
    assert p.piece('{"type":"message_delta","usage":{"output_tokens":4}}').usage == Usage(completion=4)
    assert p.piece('{"type":"message_stop"}').last
    assert p.piece('{"type":"error","error":{"type":"overloaded_error"}}').error == "overloaded"


def test_gemini_request_and_stream() -> None:
    p = providers.choose("https://h/v1beta/models/g:generateContent", None)
    base = p.resolve("https://h/v1beta/models/g:generateContent")
    assert p.request(ask(base)).url == "https://h/v1beta/models/g:streamGenerateContent?alt=sse"
    assert p.request(ask(base, stream=False)).url == "https://h/v1beta/models/g:generateContent"
    listed = p.resolve("https://h/v1beta")
    assert p.request(ask(listed)).url == "https://h/v1beta/models/m-1:streamGenerateContent?alt=sse"
    with pytest.raises(UsageError):
        p.request(ask(listed, model=""))
    event = {
        "candidates": [{"content": {"parts": [{"text": "t", "thought": True}, {"text": "x"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 5},
    }
    piece = p.piece(json.dumps(event))
    assert (piece.text, piece.reasoning, piece.finished) == ("x", True, True)
    assert piece.usage == Usage(3, 7, None, 5), "thoughts are billed beside the candidates' tokens"
    assert p.piece('{"promptFeedback":{"blockReason":"SAFETY"}}').error == "blocked"


TEMPLATE = """
path = "/generate"
body = '{"inputs": {{prompt}}, "parameters": {"max_new_tokens": {{max_tokens}}}, "stream": {{stream}}}'
text = "token.text"
whole_text = "0.generated_text"
finished = "generated_text"
error = "error"
completion_tokens = "details.generated_tokens"
key_header = "x-key"
"""


def test_a_template_describes_any_other_api(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(TEMPLATE)
    p = generic.load(path)
    wire = p.request(ask(p.resolve("http://h/base"), prompt=Prompt(({"role": "user", "content": 'say "hi"\n'},))))
    assert wire.url == "http://h/base/generate"
    assert json.loads(wire.body) == {"inputs": 'say "hi"\n', "parameters": {"max_new_tokens": 9}, "stream": True}
    assert dict(wire.headers)["x-key"] == "sk-secret"
    assert p.piece('{"token":{"text":"x"},"generated_text":null}').text == "x"
    last = p.piece('{"token":{"text":"y"},"generated_text":"xy","details":{"generated_tokens":2}}')
    assert last.finished
    assert last.usage == Usage(None, 2)
    assert p.whole(b'[{"generated_text":"whole"}]').text == "whole"
    assert p.piece('{"error":"overloaded"}').error == "upstream"


@pytest.mark.parametrize(
    "text",
    [
        "body = ''\ntext='a'",
        "body='{{prompt}}'",
        "body='\"{{prompt}}'\ntext='a'",
        "body='{{who}}'\ntext='a'",
        "bdy='x'",
        "body=1",
        "[",
        "body='{{prompt}}'\ntext='a'\nstream='ws'",
    ],
)
def test_a_wrong_template_is_refused_with_its_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        generic.load(path)
    assert caught.value.where == str(path)


def test_prompts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "one"}\n\n{"messages": [{"role": "user", "content": "two"}]}\n')
    assert [p.text for p in prompts.load(path)] == ["one", "two"]


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"messages": []}', '{"messages": [{"role": "user"}]}', '{"prompt": 3}', ""]
)
def test_a_wrong_prompt_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError):
        prompts.load(path)


def test_a_tool_is_sent_only_if_it_is_allowed_by_name(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    tool = {"type": "function", "function": {"name": "search"}}
    path.write_text(json.dumps({"prompt": "x", "tools": [tool]}) + "\n")
    with pytest.raises(HedgectlError) as caught:
        prompts.load(path)
    assert "search" in caught.value.what
    (allowed,) = prompts.load(path, allow_tools=["search"])
    assert allowed.tools == (tool,)


@given(st.text(max_size=200))
def test_no_tokenizer_makes_more_tokens_than_the_bound(text: str) -> None:
    prompt = Prompt(({"role": "user", "content": text},))
    assert prompt.most_tokens >= len(text.encode())
    assert prompt.most_tokens >= prompt.estimated_tokens


def test_retry_after_in_both_forms() -> None:
    assert retry_after("2.5") == 2.5
    assert retry_after("-1") == 0.0
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert retry_after("soon") is None
    assert retry_after(None) is None
