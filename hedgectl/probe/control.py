"""Everything a probe asks that is no measured call: metrics pages, the list of models, aborts. On connections of its own."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from typing import Any

import httpx

from hedgectl.errors import UnreachableError
from hedgectl.probe.settings import Secrets, shown_url
from hedgectl.probe.wire import Ask, Prompt, Provider

TIMEOUT_S = 2.0
_BODY_HEADERS = ("content-type", "accept", "x-request-id")


class Control:
    """A small client; metrics and aborts are asked without the key, which is for the target's API alone."""

    def __init__(self, context: ssl.SSLContext | bool) -> None:
        self._client = httpx.AsyncClient(timeout=TIMEOUT_S, verify=context)

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, url: str) -> str | None:
        """The page, or None if it is not there."""
        try:
            response = await self._client.get(url)
        except (httpx.HTTPError, httpx.InvalidURL):
            return None
        return response.text if response.status_code == 200 else None

    async def post(self, url: str, body: dict[str, Any]) -> int | None:
        """Status of a JSON post, or None if nothing answered."""
        try:
            return (await self._client.post(url, json=body)).status_code
        except httpx.HTTPError:
            return None

    async def first_model(self, provider: Provider, url: str, secrets: Secrets) -> str:
        """The first model the target lists; empty if its API has no list. Raises UnreachableError."""
        page = provider.models_url(url)
        if page is None:
            return ""
        wire = provider.request(Ask(provider.resolve(url), "-", Prompt(()), False, 1, "-", secrets.key))
        headers = [(k, v) for k, v in (*wire.headers, *secrets.headers) if k not in _BODY_HEADERS]
        try:
            response = await self._client.get(page, headers=headers)
        except httpx.HTTPError as error:
            raise UnreachableError(
                "the target does not answer", where=shown_url(page), hint="is the address right and the server up?"
            ) from error
        if response.status_code in (401, 403):
            raise UnreachableError(
                f"the target refuses us ({response.status_code})",
                where=shown_url(page),
                hint="name the variable that holds the key: --key-env NAME",
            )
        found = _first_name(response.content)
        if found is None:
            raise UnreachableError(
                f"no list of models there ({response.status_code})", where=shown_url(page), hint="give --model NAME"
            )
        return found


def _first_name(body: bytes) -> str | None:
    try:
        listed = json.loads(body)
    except ValueError:
        return None
    models: Any = (listed.get("data") or listed.get("models")) if isinstance(listed, dict) else None
    first = models[0] if isinstance(models, Sequence) and models else None
    name = (first.get("id") or first.get("name")) if isinstance(first, dict) else None
    return str(name) if name else None
