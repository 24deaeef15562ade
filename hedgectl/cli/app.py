"""Builds the command tree and turns every outcome into an exit code.

A command lives in a module of this folder with ``register(app)`` and has a line in ``_COMMANDS``. Modules are imported
when their command is used, and import nothing heavy at the top: ``hedgectl --help`` must stay instant.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from hedgectl import __version__
from hedgectl.cli import output
from hedgectl.errors import ExitCode, HedgectlError, UsageError

# command -> (module with ``register``, what the overview says of it), in the order of the help
_COMMANDS = {
    "recommend": ("recommend", "The main job: split, verdict, and a policy with its price, or a reasoned refusal."),
    "breakdown": ("analyse", "Where the time goes: queue, prefill, decode, tool wait, rest."),
    "diagnose": ("analyse", "What the tail is made of, with the evidence."),
    "simulate": ("simulate", "Replay the log: as is, better routed and hedged, at several loads."),
    "emit": ("emit", "Write a policy down for a system that hedges."),
    "diff": ("emit", "What changed between two policies, and whether it matters."),
    "explain": ("emit", "The argument for a policy in plain words."),
    "ingest": ("ingest", "Read logs into a database; every line is accounted for."),
    "daily": ("daily", "The cron job: recompute the policy, replace it only if every gate agrees."),
    "stats": ("daily", "Figures a day: percentiles, copies, cancels, cost."),
    "verify": ("daily", "Projected against observed, from blocks with hedging on and off."),
    "report": ("report", "One HTML file that shows it all."),
    "probe": ("probe", "A few live hedged calls, capped."),
    "sandbox": ("probe", "An endpoint to try it on."),
    "formats": ("formats", "Which logs are read; a mapping for your own."),
    "check": ("check", "Data checks."),
    "sql": ("sql", "Read-only queries."),
    "config": ("config", "Settings, their origin, JSON schemas."),
    "bench": ("bench", "Timing of hedgectl itself."),
}


class _Lazy(TyperGroup):
    """Imports a command's module when the command is used, so that ``--help`` does not build all of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _COMMANDS:
            return None
        part = typer.Typer(rich_markup_mode=None)
        part.callback()(lambda: None)  # several commands may be in one module: always a group
        importlib.import_module(f"hedgectl.cli.{_COMMANDS[cmd_name][0]}").register(part)
        group: Any = typer.main.get_group(part)
        return group.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


_DEBUG = os.environ.get("HEDGECTL_DEBUG", "") not in ("", "0")
_EPILOG = "Start here:  hedgectl recommend YOUR-LOG.jsonl"

app = typer.Typer(
    name="hedgectl",
    help=(
        "Would a second copy of a slow request help, with which policy, and at what price?\n\n"
        "hedgectl reads the request logs you have and answers from a replay of them.\n\n"
        "Examples:\n\n"
        "  hedgectl recommend gateway.jsonl.gz\n\n"
        "  hedgectl recommend gateway.jsonl.gz -o json | hedgectl emit - --to env"
    ),
    epilog=_EPILOG,
    cls=_Lazy,
    no_args_is_help=False,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback()
def _root(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        output.write_text(f"hedgectl {__version__}\n", None)
        raise typer.Exit(0)
    if ctx.invoked_subcommand is None:
        output.write_text(_WELCOME, None)
        raise typer.Exit(0)


_WELCOME = """\
hedgectl tells you whether a second copy of a slow request would help, and at what price.

  first:  hedgectl recommend YOUR-LOG.jsonl        latency split, verdict, policy or refusal
  then:   hedgectl breakdown YOUR-LOG.jsonl        where the time goes
          hedgectl formats                         which logs are read, and how to switch them on
          hedgectl formats --detect YOUR-LOG       a starter mapping for a log of your own
  more:   hedgectl --help
"""


def _stand_in() -> None:
    """Nothing in place of a stream that the caller closed (``>&-``): its number must not go to the next file that is opened."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - open until the end


class _Terminated(BaseException):
    """SIGTERM, so that ``finally`` blocks run before the process ends."""


_SIGNALLED: list[type[BaseException]] = []


def _on_signal(signum: int, frame: FrameType | None) -> NoReturn:
    _SIGNALLED.append(KeyboardInterrupt if signum == signal.SIGINT else _Terminated)
    raise _SIGNALLED[-1]


def _called(argv: list[str] | None) -> object:
    """What the command returns. DuckDB puts an error of its own in place of what a signal raised during a query."""
    _SIGNALLED.clear()
    try:
        return app(args=argv, prog_name="hedgectl", standalone_mode=False)
    except Exception as error:
        if _SIGNALLED:
            raise _SIGNALLED[-1] from error
        raise


def main(argv: list[str] | None = None) -> NoReturn:
    """Runs one command and exits with an ``ExitCode``; never shows a traceback for anything a user can cause."""
    _stand_in()
    with contextlib.suppress(ValueError):  # not in the main thread: a test that calls main() directly
        signal.signal(signal.SIGTERM, _on_signal)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a job in the background ignores it
            signal.signal(signal.SIGINT, _on_signal)
    sys.exit(_run(argv))


def _nearest(error: typer.TyperException) -> str:
    """The hint for a command that does not exist: the one that was meant, if it can be guessed."""
    import difflib

    wrong = error.format_message().split("'")
    near = difflib.get_close_matches(wrong[1], _COMMANDS, n=1) if len(wrong) > 2 else []
    return f"did you mean {near[0]}? hedgectl --help lists the commands" if near else "hedgectl --help"


def _reader_gone() -> int:
    """The reader of our stdout has gone (| head): what it wanted, it has. What is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(ExitCode.OK)


def _run(argv: list[str] | None) -> int:
    try:
        for given in sys.argv[1:] if argv is None else argv:
            if not given.isprintable() and any("\ud800" <= mark <= "\udfff" for mark in given):
                raise UsageError(
                    "an argument holds bytes that are not UTF-8",
                    where=given,
                    hint="rename the file, or give it as -: hedgectl ... - < FILE",
                )
        code = _called(argv)
        output.flush()
        failure = output.deferred()
        if failure is not None:
            raise failure
        return int(code) if isinstance(code, int) else int(ExitCode.OK)
    except HedgectlError as error:
        output.error(error)
        return int(error.code)
    except typer.TyperException as error:
        ctx = getattr(error, "ctx", None)
        hint = (
            f"hedgectl {ctx.command.name} --help" if ctx is not None and ctx.parent is not None else "hedgectl --help"
        )
        taken = str(getattr(error, "option_name", ""))  # a file whose name begins like an option
        if taken.startswith("-") and os.path.lexists(taken):
            hint = f"for the file of that name: ./{taken}"
        output.error(UsageError(error.format_message(), hint=hint))
        return int(ExitCode.USAGE)
    except typer.Abort:
        output.message("interrupted; nothing half-written is left behind")
        return int(ExitCode.INTERRUPTED)
    except KeyboardInterrupt:
        output.message("interrupted; nothing half-written is left behind")
        return int(ExitCode.INTERRUPTED)
    except _Terminated:
        output.message("terminated; nothing half-written is left behind")
        return int(ExitCode.TERMINATED)
    except output.ReaderGone:
        return _reader_gone()
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit:
        # typer ends so when the pipe closes while it prints help
        return _reader_gone()
    except MemoryError:
        output.error(
            HedgectlError("out of memory", hint="give --memory-limit, a shorter --window, or a machine with more")
        )
        return int(ExitCode.FAILED)
    except OSError as error:
        if _DEBUG:
            raise
        where = str(error.filename) if error.filename else None
        output.error(
            HedgectlError(
                error.strerror or str(error), where=where, hint="check the path, its permissions and the free space"
            )
        )
        return int(ExitCode.FAILED)
    except Exception as error:
        if _DEBUG:
            raise
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        output.error(
            HedgectlError(
                f"this is a fault of hedgectl, not of your input: {type(error).__name__}: {error}",
                where=f"{os.path.basename(last.filename)}:{last.lineno}",
                hint="HEDGECTL_DEBUG=1 shows the traceback; please report it",
            )
        )
        return int(ExitCode.FAILED)
