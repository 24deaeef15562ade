"""``formats --detect FILE``: which format fits a file and why, or a mapping to start from."""

from __future__ import annotations

from typing import Any

from hedgectl import store
from hedgectl.errors import InputError
from hedgectl.formats.document import detection_document
from hedgectl.ingest.ledger import Ledger
from hedgectl.ingest.reading import open_file
from hedgectl.ingest.recognise import read_sample


def detection(path: str) -> dict[str, Any]:
    """The document formats.v1 with ``detected``. Raises InputError for what is no log, UsageError if two formats fit."""
    with store.connect(None) as memory:
        try:
            opened = open_file(path, Ledger(memory.con))
        except OSError as error:
            raise InputError(f"cannot read the file: {error.strerror}", where=path, hint="check the path") from error
        try:
            return detection_document(read_sample(opened, memory.con), path=path)
        finally:
            opened.close()
