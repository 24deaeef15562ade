"""The whole recommendation: one decision a scope of the prepared log, worst first, as a policy document."""
from __future__ import annotations


def recommend() -> None: ...
