"""How each document looks to people. One file a kind, ``view(doc) -> list[Block]``; the folder is the registry."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from hedgectl.cli.blocks import View


def of(doc: dict[str, Any]) -> View:
    """The view of a document, found by its ``schema``; a kind without a file of its own is shown as plain pairs."""
    kind = str(doc.get("schema", "")).removeprefix("hedgectl/").split(".")[0]
    module = f"hedgectl.cli.views.{kind}"
    if not kind.isidentifier() or importlib.util.find_spec(module) is None:
        module = "hedgectl.cli.views.plain"
    view: View = importlib.import_module(module).view(doc)
    return view
