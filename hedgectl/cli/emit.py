"""``emit``, ``diff`` and ``explain``: the three commands that take policies as arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgectl.cli import output, visible
from hedgectl.cli.options import Printing, grouped
from hedgectl.errors import InputError, UsageError

_EMIT_HELP = """Write a policy down for a system that hedges.

Examples:

  hedgectl recommend gateway.jsonl.gz --for envoy -o json | hedgectl emit - --to envoy

  hedgectl emit policy.json --to client -O hedge.json

What the target cannot do is said on stderr; --strict makes it exit 3. A decision other than hedge writes hedging off.

Next: hedgectl emit --check FILE --to TARGET looks at a file for what its runtime would silently not do.
"""

_DIFF_HELP = """What changed between two policies, and whether it matters.

Examples:

  hedgectl diff old.json new.json

  hedgectl recommend today.jsonl -o json | hedgectl diff policy.json -

Next: hedgectl explain NEW.
"""

_EXPLAIN_HELP = """The argument for a policy in plain words.

Examples:

  hedgectl explain policy.json

  hedgectl recommend gateway.jsonl.gz -o json | hedgectl explain -

Next: hedgectl emit POLICY --to TARGET.
"""

PolicyArg = Annotated[str, typer.Argument(metavar="POLICY", help="a policy.v1 file; - reads stdin")]


def register(app: typer.Typer) -> None:
    """Adds the three commands."""
    app.command("emit", help=_EMIT_HELP)(grouped(emit))
    app.command("diff", help=_DIFF_HELP)(grouped(diff))
    app.command("explain", help=_EXPLAIN_HELP)(grouped(explain))


def emit(
    printing: Printing,
    policy: Annotated[
        str | None, typer.Argument(metavar="[POLICY]", help="a policy.v1 file; - (the default) reads stdin")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TARGET", help="the system to write for")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="all targets, and what cannot hedge")] = False,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="look at this file instead of writing one")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="a whole configuration, not a snippet (envoy)")] = False,
    tests: Annotated[bool, typer.Option("--tests", help="unit tests of what is written (prometheus)")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="exit 3 if the target cannot express a part")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a name in the output, see --list")
    ] = None,
) -> None:
    from hedgectl import emitters

    printing.begin()
    if show_list:
        printing.show(_listed())
        return
    if to is None:
        raise UsageError("--to is missing", hint=f"one of {', '.join(emitters.catalogue())}; see --list")
    emitters.target(to)  # an unknown name is said before stdin is waited for
    if check is not None:
        _check(check, to, printing)
        return
    if full and tests:
        raise UsageError("--full and --tests are two different texts", hint="give one")
    form = "full" if full else "tests" if tests else None
    document = read_policy(policy or "-")
    emitted = emitters.emit(document, to, options=named_values(settings or []), form=form, strict=strict)
    if document.edited:
        output.message("warning: the policy was edited after it was made: its policy_id is not that of its content")
    alike: dict[tuple[str, str], list[str]] = {}  # what is lost in the same way is said in one line
    for loss in emitted.losses:
        alike.setdefault((loss.scope, loss.nearest), []).append(loss.wanted)
    for (scope, nearest), wanted in alike.items():
        output.message(f"{to}: {visible.one_line(scope)}: cannot do: {', '.join(wanted)}; nearest: {nearest}")
    for lint in emitted.lints:
        output.message(f"{lint.level}: {lint.where}: {lint.text}")
    if printing.fmt == "json":
        output.document(emitted.to_document(document), "json", printing.out)
    elif emitted.refusal is None:
        output.write_text(emitted.text, printing.out)
    if emitted.refusal is not None:
        raise emitted.refusal


def diff(
    printing: Printing,
    old: PolicyArg,
    new: PolicyArg,
) -> None:
    from hedgectl import policy

    printing.begin()
    if old == "-" and new == "-":
        raise UsageError("both policies cannot be stdin", hint="give a file for one of them")
    printing.show(policy.diff(read_policy(old), read_policy(new)))


def explain(
    printing: Printing,
    policy: PolicyArg,
) -> None:
    from hedgectl import policy as policies

    printing.begin()
    printing.show(policies.explain(read_policy(policy)))


def read_policy(path: str) -> Any:
    """The policy in a file or on stdin. Raises InputError if it is no JSON, UsageError if it is no policy."""
    from hedgectl import policy

    hint = "hedgectl recommend LOG -o json prints one"
    if path == "-":
        where, raw = "stdin", sys.stdin.buffer.read()
    else:
        where = path
        try:
            raw = Path(path).read_bytes()
        except OSError as error:
            raise InputError(f"cannot read the policy: {error.strerror}", where=path, hint=hint) from None
    if not raw.strip():
        raise InputError("there is no policy: the input is empty", where=where, hint=hint)
    try:
        decoded = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is no policy, it is not even JSON: {error}", where=where, hint=hint) from None
    return policy.parse(decoded)


def named_values(given: list[str]) -> dict[str, str]:
    """The pairs of repeated ``--set NAME=VALUE``. Raises UsageError for anything else."""
    pairs: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"--set {each} is not NAME=VALUE", hint="for example --set cluster=llm_backends")
        pairs[name] = value
    return pairs


def _check(path: Path, to: str, printing: Printing) -> None:
    from hedgectl import emitters
    from hedgectl.errors import NotEnoughData

    try:
        text = path.read_text(encoding="utf-8") if str(path) != "-" else sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the file: {error}", where=str(path)) from None
    lints = emitters.check(text, to)
    printing.show(emitters.check_document(to, lints))
    broken = [lint for lint in lints if lint.level == "error"]
    if broken:
        raise NotEnoughData(
            f"{len(broken)} things in this file are accepted by {to} and then not done",
            where=f"{path}: {broken[0].where}",
        )


def _listed() -> dict[str, Any]:
    from hedgectl import emitters

    return emitters.list_document()
