"""What a probe asks: prompts from a JSONL file, else a small built-in set of plain questions of several lengths."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from hedgectl.errors import InputError, UsageError
from hedgectl.probe.wire import Prompt

_QUESTIONS = (
    "Name three rivers in Europe.",
    "Explain in two sentences why the sky is blue.",
    "Give a short recipe for pancakes.",
    "What is the difference between a process and a thread? Answer in one paragraph.",
    "Write a polite note that a meeting moves from Monday to Tuesday.",
    "List five uses of a paper clip.",
    "Summarise in three sentences: A shop sold bread, milk and fruit. In spring it added flowers, and in autumn it "
    "began to deliver. After two years half of its sales were deliveries, so the owner rented a second van and hired a "
    "driver. The flowers were given up, since they did not keep well, and the freed room became a packing corner.",
    "Describe how a bicycle stays upright, for a curious child, in about a hundred words.",
)
_HINT = 'one JSON object a line: {"prompt": "..."} or {"messages": [{"role": "user", "content": "..."}]}'


def built_in() -> tuple[Prompt, ...]:
    """Eight questions of 6 to 80 words; without tools."""
    return tuple(Prompt(({"role": "user", "content": text},)) for text in _QUESTIONS)


def load(path: Path, *, allow_tools: Collection[str] = ()) -> tuple[Prompt, ...]:
    """Reads prompts from JSONL; ``tools`` of a prompt are sent only if every one is allowed by name.

    A tool with side effects could run twice, so an unnamed tool is refused, not dropped. Raises UsageError or
    InputError with the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read the prompts: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise InputError("the prompts are not UTF-8", where=str(path)) from error
    found = [_prompt(line, f"{path}:{number}", allow_tools) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise InputError("no prompt in the file", where=str(path), hint=_HINT)
    return tuple(found)


def _prompt(line: str, where: str, allow_tools: Collection[str]) -> Prompt:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", where=where, hint=_HINT) from error
    if not isinstance(value, dict):
        raise InputError("not a JSON object", where=where, hint=_HINT)
    tools = _tools(value.get("tools"), where, allow_tools)
    if isinstance(value.get("prompt"), str):
        return Prompt(({"role": "user", "content": value["prompt"]},), tools)
    messages = value.get("messages")
    if isinstance(messages, list) and messages and all(_is_message(m) for m in messages):
        return Prompt(tuple({"role": m["role"], "content": m["content"]} for m in messages), tools)
    raise InputError("neither prompt nor messages", where=where, hint=_HINT)


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and isinstance(value.get("content"), str)


def tool_name(tool: Mapping[str, Any]) -> str:
    """The name of a tool in the forms of OpenAI (``function.name``), Anthropic (``name``); empty if it has none."""
    inner = tool.get("function")
    named = inner if isinstance(inner, dict) else tool
    return str(named.get("name", ""))


def _tools(value: Any, where: str, allow_tools: Collection[str]) -> tuple[Mapping[str, Any], ...]:
    if not value:
        return ()
    if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
        raise InputError("tools is not a list of objects", where=where)
    for tool in value:
        if tool_name(tool) not in allow_tools:
            raise UsageError(
                f"tool {tool_name(tool) or '(unnamed)'} is not allowed",
                where=where,
                hint="a tool may run twice when a call is hedged; allow it with --allow-tools NAME",
            )
    return tuple(value)
