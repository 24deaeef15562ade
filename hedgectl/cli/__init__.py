"""The command line: parses, calls one function, hands its document to ``output``."""

from hedgectl.cli.app import app, main

__all__ = ["app", "main"]
