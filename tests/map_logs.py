"""A user's own mapping from TOML text, and records read by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from format_rows import Row, rows

from hedgectl.formats.catalogue import Format, load_user_map

T0 = "2026-02-01T10:00:00Z"
T0_NS = 1769940000_000000000


@pytest.fixture
def mapping(tmp_path: Path) -> Any:
    def make(text: str) -> Format:
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return load_user_map(path)

    return make


def read(fmt: Format, *records: dict[str, Any], **options: Any) -> list[Row]:
    return rows(fmt, [json.dumps(r, ensure_ascii=False) for r in records], **options)
