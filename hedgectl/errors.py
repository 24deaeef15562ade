"""The error tree and the exit codes: the only ways in which hedgectl fails on purpose."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """Process exit codes; stable, documented in the README."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_ENOUGH = 3  # not enough data, or a gate or --strict says no: the numbers are printed all the same
    UNUSABLE = 4  # input holds no request, or rejects beyond --max-reject
    BUSY = 5  # database held by another process
    UNREACHABLE = 6  # probe target
    INTERRUPTED = 130
    TERMINATED = 143


class HedgectlError(Exception):
    """A failure with an explanation: what happened, where, and what to do about it.

    Printed by the command line as ``hedgectl: error: WHAT``, then ``where:`` and ``hint:`` lines.
    """

    code: ExitCode = ExitCode.FAILED

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint


class UsageError(HedgectlError):
    """Wrong flags, an unknown name, an invalid configuration file or policy."""

    code = ExitCode.USAGE


class InputError(HedgectlError):
    """Input that cannot be used at all: no file, no request in it, no format fits."""

    code = ExitCode.UNUSABLE


class NoRequests(InputError):
    """Logs that could be read and hold no request. ``document`` is what reading them has to say (ingest.v1), None before that."""

    document: dict[str, Any] | None = None


class NotEnoughData(HedgectlError):
    """The question cannot be answered from this log, or a gate said no."""

    code = ExitCode.NOT_ENOUGH


class BusyError(HedgectlError):
    """Another process holds the database."""

    code = ExitCode.BUSY


class UnreachableError(HedgectlError):
    """The target of a live probe does not answer."""

    code = ExitCode.UNREACHABLE
