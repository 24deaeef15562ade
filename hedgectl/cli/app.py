"""Builds the command tree and turns every outcome into an exit code.

A command is a module in this folder with ``register(app)``; the order in ``_COMMANDS`` is the order in the help.
Modules here import nothing heavy at the top: ``hedgectl --help`` must stay instant.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

import typer

from hedgectl import __version__
from hedgectl.cli import output
from hedgectl.errors import ExitCode, HedgectlError, UsageError

_COMMANDS = (
    "ingest",
    "formats",
    "analyse",
    "recommend",
    "simulate",
    "emit",
    "probe",
    "daily",
    "report",
    "check",
    "sql",
    "bench",
    "config",
)

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

for _name in _COMMANDS:
    if importlib.util.find_spec(f"hedgectl.cli.{_name}") is not None:
        importlib.import_module(f"hedgectl.cli.{_name}").register(app)


class _Terminated(BaseException):
    """SIGTERM, so that ``finally`` blocks run before the process ends."""


def _on_sigterm(signum: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def main(argv: list[str] | None = None) -> NoReturn:
    """Runs one command and exits with an ``ExitCode``; never shows a traceback for anything a user can cause."""
    with contextlib.suppress(ValueError):  # not in the main thread: a test that calls main() directly
        signal.signal(signal.SIGTERM, _on_sigterm)
    sys.exit(_run(argv))


def _reader_gone() -> int:
    """The reader of our stdout has gone (| head): what it wanted, it has. What is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(ExitCode.OK)


def _run(argv: list[str] | None) -> int:
    try:
        code = app(args=argv, prog_name="hedgectl", standalone_mode=False)
        output.flush()
        return int(code) if isinstance(code, int) else int(ExitCode.OK)
    except HedgectlError as error:
        output.error(error)
        return int(error.code)
    except typer.TyperException as error:
        ctx = getattr(error, "ctx", None)
        hint = (
            f"hedgectl {ctx.command.name} --help" if ctx is not None and ctx.parent is not None else "hedgectl --help"
        )
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
        last = traceback.extract_tb(error.__traceback__)[-1]
        output.error(
            HedgectlError(
                f"this is a fault of hedgectl, not of your input: {type(error).__name__}: {error}",
                where=f"{os.path.basename(last.filename)}:{last.lineno}",
                hint="HEDGECTL_DEBUG=1 shows the traceback; please report it",
            )
        )
        return int(ExitCode.FAILED)
