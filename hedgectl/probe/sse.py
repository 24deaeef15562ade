"""Server-sent events from bytes: an incremental decoder for the ``data`` of each event."""

from __future__ import annotations

import codecs


class SseDecoder:
    """Turns chunks of bytes, cut anywhere, into the data payloads of complete events.

    Follows the WHATWG event stream format for the ``data`` field: lines end in LF, CR or CRLF, several data lines of
    one event are joined by LF, comments and other fields are ignored. An event is complete at its empty line; what
    follows the last empty line is only handed out by ``finish`` (some servers end without one).
    """

    __slots__ = ("_data", "_first", "_rest", "_skip_lf", "_utf8")

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._data: list[str] = []
        self._skip_lf = False
        self._first = True

    def feed(self, chunk: bytes) -> list[str]:
        """Data payloads completed by ``chunk``, in order."""
        text = self._utf8.decode(chunk)
        if self._skip_lf and text:
            # The last chunk ended in CR: a leading LF belongs to that line end, it is not an empty line.
            text = text.removeprefix("\n")
            self._skip_lf = False
        if self._first and text:
            text = text.removeprefix("\ufeff")
            self._first = False
        if text.endswith("\r"):
            self._skip_lf = True
        text = self._rest + text
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        self._rest = lines.pop()
        events: list[str] = []
        for line in lines:
            self._line(line, events)
        return events

    def finish(self) -> list[str]:
        """The payload of an event whose closing empty line never came, if there is one."""
        events: list[str] = []
        if self._rest:
            self._line(self._rest, events)
            self._rest = ""
        self._line("", events)
        return events

    def _line(self, line: str, events: list[str]) -> None:
        if not line:
            if self._data:
                events.append("\n".join(self._data))
                self._data = []
        elif line.startswith("data:"):
            self._data.append(line[6:] if line.startswith("data: ") else line[5:])
        elif line == "data":
            self._data.append("")


class LineDecoder:
    """Newline-delimited JSON from bytes: the same interface as ``SseDecoder``, one payload a non-empty line."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Complete non-empty lines."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        return [text for line in lines if (text := line.decode("utf-8", "replace").strip())]

    def finish(self) -> list[str]:
        """The last line if it had no line end."""
        text, self._rest = self._rest.decode("utf-8", "replace").strip(), b""
        return [text] if text else []
