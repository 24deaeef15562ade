"""The only writer of stdout (data) and stderr (everything else).

Documents leave as ``table | json | jsonl | csv | md``; the bytes are the same in a pipe, in a file and with ``--out``.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from hedgectl.cli import visible
from hedgectl.errors import HedgectlError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from hedgectl.cli import blocks

_quiet = False
_verbose = False
_color = "auto"
_deferred: HedgectlError | None = None

_TICK_S = 1.0  # between two counts of the seconds that a stage takes
_NARROWEST = 60  # columns; below, sentences would be cut to pieces
FORMATS = ("table", "json", "jsonl", "csv", "md")


def configure(*, quiet: bool = False, verbose: bool = False, color: str = "auto") -> None:
    """Sets how much is said on stderr and whether colour is used (``auto | always | never``)."""
    global _quiet, _verbose, _color, _deferred
    if color not in ("auto", "always", "never"):
        raise UsageError(f"--color {color}", hint="auto, always or never")
    _quiet, _verbose, _color, _deferred = quiet, verbose, color, None


def fail_after(failure: HedgectlError) -> None:
    """The command prints its document first and fails then, with this; a file given as --out is left as it is."""
    global _deferred
    _deferred = _deferred or failure


def deferred() -> HedgectlError | None:
    """The failure that the command ends with, if any."""
    return _deferred


class ReaderGone(Exception):
    """The other end of the pipe is closed. No OSError, because typer would turn that into exit code 1."""


def write_text(text: str, out: Path | None) -> None:
    """Writes data to stdout, or atomically to the file ``out``: a reader sees the old file or the new one, never half.

    A file is left as it is once the command is bound to fail (:func:`fail_after`).
    """
    if out is not None and str(out) != "-" and _deferred is not None:
        return
    if out is None or str(out) == "-":
        try:
            sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise ReaderGone from None
        return
    import tempfile

    if out.exists() and not out.is_file() and not out.is_dir():
        # a device or a named pipe is written to: putting a file in its place would take it from everybody
        try:
            with open(out, "w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
                stream.write(text)
        except BrokenPipeError:
            raise ReaderGone from None
        except OSError as error:
            raise HedgectlError(
                f"cannot write {out}: {error.strerror}", where=str(out), hint="choose another --out"
            ) from error
        return
    if out.is_symlink():
        out = out.resolve()  # the link stays, what it points to is replaced
    try:
        handle, temporary = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    except OSError as error:
        raise HedgectlError(
            f"cannot write {out}: {error.strerror}", where=str(out.parent), hint="choose another --out"
        ) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, out)
    except OSError as error:
        raise HedgectlError(
            f"cannot write {out}: {error.strerror}",
            where=str(out.parent),
            hint="free some space or choose another --out",
        ) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def document(doc: dict[str, Any], fmt: str, out: Path | None) -> None:
    """Prints one document of documents.md in the format asked for."""
    write_text(render(doc, fmt, width=_width() if out is None else 100, color=_use_color() and out is None), out)


def view(shown: blocks.View, fmt: str, out: Path | None) -> None:
    """Prints blocks that belong to no document (``sql``)."""
    write_text(_blocks(shown, fmt, width=_width() if out is None else 100, color=_use_color() and out is None), out)


def render(doc: dict[str, Any], fmt: str, *, width: int = 100, color: bool = False) -> str:
    """The text of a document. ``json`` is the document itself; the others show its view (``cli/views``)."""
    if fmt == "json":
        return json_text(doc)
    views = importlib.import_module("hedgectl.cli.views")
    return _blocks(views.of(doc), fmt, width=width, color=color)


def _blocks(shown: blocks.View, fmt: str, *, width: int, color: bool) -> str:
    blocks = importlib.import_module("hedgectl.cli.blocks")
    if fmt == "table":
        text: str = blocks.terminal(shown, width=width, color=color)
    elif fmt == "md":
        text = blocks.markdown(shown)
    elif fmt == "csv":
        text = blocks.csv_text(shown)
    elif fmt == "jsonl":
        text = blocks.jsonl(shown)
    else:
        raise UsageError(f"-o {fmt} is not known here", hint=f"one of: {', '.join(FORMATS)}")
    return text


def json_text(doc: Any) -> str:
    """Canonical JSON for people and pipes: UTF-8, two spaces, no NaN."""
    import json

    return json.dumps(doc, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def flush() -> None:
    """Flushes stdout, so that a closed pipe is noticed while it can still be handled."""
    sys.stdout.flush()


def error(failure: HedgectlError) -> None:
    """``hedgectl: error: WHAT``, then ``where:`` and ``hint:`` lines, on stderr."""
    lines = [f"hedgectl: error: {visible.lines(failure.what)}"]
    if failure.where:
        lines.append(f"  where: {visible.one_line(failure.where)}")
    if failure.hint:
        lines.append(f"  hint:  {visible.lines(failure.hint)}")
    _stderr("\n".join(lines))


def message(text: str) -> None:
    """A line for people on stderr; silent with ``-q``."""
    if not _quiet:
        _stderr(f"hedgectl: {visible.lines(text)}")


def detail(text: str) -> None:
    """A line for people who asked for more with ``-v``."""
    if _verbose:
        _stderr(f"hedgectl: {visible.lines(text)}")


def notes(doc: dict[str, Any]) -> None:
    """Prints the warnings of a document on stderr, for outputs in which they would not be seen."""
    for note in doc.get("notes", []):
        if note.get("level") in ("warning", "error"):
            message(f"{note['level']}: {note['text']}")


class Progress:
    """One line on stderr: on a terminal rewritten, with the seconds since it began; elsewhere printed if -v asks for it.

    On a terminal a thread counts the seconds, so that a stage that says nothing for a while is seen to be at work.
    """

    def __init__(self) -> None:
        self._shown = ""
        self._live = sys.stderr.isatty() and not _quiet
        self._began = time.monotonic()
        self._line = threading.Lock()
        self._over = threading.Event()
        self._clock: threading.Thread | None = None

    def __call__(self, text: str) -> None:
        if _quiet or text == self._shown:
            return
        if not self._live:
            self._shown = text
            if _verbose:
                _stderr(f"hedgectl: {visible.lines(text)}")
            return
        with self._line:
            self._shown = text
            self._write()
            if self._clock is None:
                self._clock = threading.Thread(target=self._count, daemon=True)
                self._clock.start()

    def stage(self, name: str, share: float) -> None:
        """A stage and how much of it is done, as a share of 1; 0 is not shown."""
        self(f"{name} {100 * share:.0f} %" if share else name)

    def clear(self) -> None:
        """Takes the line away; the next text brings it back."""
        with self._line:
            if self._live and self._shown:
                _stderr("\r\x1b[2K", end="")
                self._shown = ""

    def end(self) -> None:
        """Takes the line away for good."""
        self._over.set()
        self.clear()

    def _count(self) -> None:
        while not self._over.wait(_TICK_S):
            with self._line:
                if self._shown:
                    self._write()

    def _write(self) -> None:
        seconds = int(time.monotonic() - self._began)
        text = visible.one_line(self._shown) + (f", {seconds} s" if seconds else "")
        _stderr(f"\r\x1b[2K{_fitted(text, _columns(sys.stderr) - 1)}", end="")


@contextlib.contextmanager
def progress(first: str | None = None) -> Iterator[Progress]:
    """A progress line that is gone when the block ends, however it ends; ``first`` is shown at once.

    Loading duckdb and numpy takes longer than a person waits without a sign: import them inside the block.
    """
    line = Progress()
    if first is not None:
        line(first)
    try:
        yield line
    finally:
        line.end()


def _stderr(text: str, end: str = "\n") -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed stderr must not change the outcome
        sys.stderr.write(text + end)
        sys.stderr.flush()


def _fitted(text: str, width: int) -> str:
    """A line that wraps could not be rewritten: of a long one the middle is left out."""
    if len(text) <= width:
        return text
    end = width // 2
    return f"{text[: width - end - 3]}...{text[len(text) - end :]}"


def _width() -> int:
    """Columns of the terminal; 100 in a pipe, so that a pipe and a file hold the same bytes."""
    if not sys.stdout.isatty():
        given = os.environ.get("COLUMNS", "")
        return max(_NARROWEST, int(given)) if given.isdecimal() and len(given) < 9 else 100
    return max(_NARROWEST, _columns(sys.stdout))


def _columns(stream: TextIO) -> int:
    """Columns of a terminal; 100 if it does not say (a pseudo terminal without a size says 0)."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 100
    except OSError:
        return 100


def _use_color() -> bool:
    if _color != "auto":
        return _color == "always"
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
