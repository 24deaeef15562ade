"""What a view is made of (headings, text, tables) and how each block looks in a terminal, Markdown, CSV and JSONL."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgectl.cli import visible


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph. ``label`` stands before it (``verdict``); ``style`` is a rich style, never the only carrier of a meaning.

    A newline is taken for one that came in with somebody's name, and spelled out, unless the text is ``laid_out`` in lines.
    """

    text: str
    label: str = ""
    style: str = ""
    laid_out: bool = False

    @property
    def shown(self) -> str:
        return visible.lines(self.text) if self.laid_out else visible.one_line(self.text)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns. ``main`` marks the table that ``-o csv`` and ``-o jsonl`` print.

    ``records`` are the same rows for machines: unrounded values under stable names, one dict a row.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    records: Sequence[dict[str, Any]] = ()
    main: bool = False
    left: int = 1  # how many leading columns are text and stand left
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Records for machines only: what csv and jsonl print, shown in no other format."""

    records: Sequence[dict[str, Any]] = field(default_factory=tuple)
    main: bool = True


Block = Text | Table | Rows
View = Sequence[Block]


_NARROWEST = 6  # columns that a cell of text keeps beside numbers that need the rest


def terminal(view: View, *, width: int, color: bool) -> str:
    """Text for a terminal of ``width`` columns; cells wrap, nothing is cut: a table that cannot be narrower has longer lines."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for block in view:
        if isinstance(block, Text):
            if block.label:
                grid = RichTable.grid(padding=(0, 2, 0, 0))
                grid.add_column(width=9, no_wrap=True)
                grid.add_column(overflow="fold")
                grid.add_row(
                    RichText(block.label, style="bold" if color else ""),
                    RichText(block.shown, style=block.style),
                )
                console.print(grid)
            else:
                console.print(RichText(block.shown, style=block.style))
        elif isinstance(block, Table):
            # the title is a line of its own: inside the table it would be wrapped to the table's width
            if block.title:
                console.print(RichText("\n" + visible.one_line(block.title), style="bold" if color else ""))
            table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if color else "")
            needed = 0
            for index, name in enumerate(block.columns):
                text = index < block.left or not name  # a column without a name holds bars or remarks
                # a number is never broken from its unit: only text columns give way on a narrow terminal
                longest = max((len(visible.one_line(row[index])) for row in block.rows), default=0)
                widest = 0 if text else longest
                word = max(map(len, visible.one_line(name).split()), default=0)
                needed += max(min(longest, _NARROWEST) if text else longest, word) + 2
                table.add_column(
                    visible.one_line(name),
                    justify="left" if text else "right",
                    overflow="fold",
                    min_width=widest or None,
                )
            for row in block.rows:
                table.add_row(*[RichText(visible.one_line(cell)) for cell in row])
            console.width = max(width, needed)  # rich cuts what does not fit
            console.print(table)
            console.width = width
            if block.caption:
                console.print(RichText(visible.lines(block.caption)))
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n"))


def markdown(view: View) -> str:
    """GitHub-flavoured Markdown."""
    parts: list[str] = []
    for block in view:
        if isinstance(block, Text) and block.text:
            text = block.shown
            parts.append(f"**{block.label}**: {text}" if block.label else text)
        elif isinstance(block, Table):
            lines = [f"**{visible.one_line(block.title)}**", ""] if block.title else []
            lines.append("| " + " | ".join(_cell(c) for c in block.columns) + " |")
            lines.append(
                "|" + "|".join(" --- " if i < block.left else " ---: " for i in range(len(block.columns))) + "|"
            )
            lines += ["| " + " | ".join(_cell(c) for c in row) + " |" for row in block.rows]
            if block.caption:
                lines += ["", visible.lines(block.caption)]
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def csv_text(view: View) -> str:
    """The main records as RFC 4180 CSV with a header and LF line ends; a text like a formula gets a ``'`` before it."""
    records = _records(view)
    names: list[str] = []
    for record in records:
        names += [key for key in record if key not in names]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow(
            {
                k: json.dumps(v, ensure_ascii=False) if isinstance(v, dict | list) else visible.cell(v)
                for k, v in record.items()
            }
        )
    return buffer.getvalue()


def jsonl(view: View) -> str:
    """The main records, one JSON object a line."""
    return "".join(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in _records(view))


def _records(view: View) -> Sequence[dict[str, Any]]:
    for block in view:
        if isinstance(block, Table | Rows) and block.main:
            if block.records or isinstance(block, Rows):
                return block.records
            return [dict(zip(block.columns, row, strict=True)) for row in block.rows]
    return ()


def _cell(text: str) -> str:
    return visible.one_line(text.replace("\n", " ")).replace("|", "\\|")
