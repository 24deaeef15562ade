"""API dialects, one file each; the folder is the registry."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from hedgectl.errors import UsageError
from hedgectl.probe.wire import Provider


@cache
def load_all() -> dict[str, Provider]:
    """Every provider by name; a file of this folder that defines ``PROVIDER`` is one."""
    found: dict[str, Provider] = {}
    for module in pkgutil.iter_modules(__path__):
        provider = getattr(importlib.import_module(f"{__name__}.{module.name}"), "PROVIDER", None)
        if provider is not None:
            found[provider.name] = provider
    return found


def choose(url: str, name: str | None) -> Provider:
    """The provider called ``name``, else the one the URL speaks of, else OpenAI-compatible chat."""
    known = load_all()
    if name is not None:
        if name not in known:
            raise UsageError(f"no provider named {name}", hint=f"one of: {', '.join(sorted(known))}")
        return known[name]
    for provider in known.values():
        if provider.matches(url):
            return provider
    return known["openai"]
