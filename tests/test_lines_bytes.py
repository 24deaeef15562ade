"""Bytes to blocks: decompression told by magic, cut archives, newlines, encodings, over-long lines, file names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgectl.errors import InputError
from hedgectl.lines import Damage, blocks, byte_chunks, decode, expand, kind_of

TEXT = b"".join(b'{"n": %d, "pad": "%s"}\n' % (i, bytes([97 + i % 26]) * (i % 90)) for i in range(4000))


def unpack(data: bytes) -> tuple[bytes, list[str]]:
    damage = Damage()
    return b"".join(byte_chunks(io.BytesIO(data), damage, where="t")), damage.reasons


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


PACKERS = {"gzip": gzip.compress, "zstd": zstd, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("kind", PACKERS)
def test_an_archive_is_told_by_its_bytes_and_all_its_members_are_read(kind: str) -> None:
    pack = PACKERS[kind]
    half = len(TEXT) // 2
    data = pack(TEXT[:half]) + pack(b"") + pack(TEXT[half:])
    assert kind_of(data) == kind
    assert unpack(data) == (TEXT, [])


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_cut_archive_gives_what_comes_before_the_cut_and_says_so(kind: str) -> None:
    data = b"".join(PACKERS[kind](TEXT[i : i + 20_000]) for i in range(0, len(TEXT), 20_000))
    whole, cut = unpack(data[: len(data) * 2 // 3])
    assert cut == ["cut_archive"]
    assert TEXT.startswith(whole)
    assert len(whole) >= len(TEXT) // 2


def test_a_damaged_gzip_gives_the_part_before_the_damage() -> None:
    data = bytearray(gzip.compress(TEXT))
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
    got, reasons = unpack(bytes(data))
    assert reasons == ["damaged_archive"]
    common = next((i for i, (a, b) in enumerate(zip(got, TEXT, strict=False)) if a != b), len(got))
    assert common > len(TEXT) // 10


def test_bytes_behind_an_archive_are_damage_but_padding_is_not() -> None:
    assert unpack(gzip.compress(TEXT) + b"\0" * 512) == (TEXT, [])
    assert unpack(gzip.compress(TEXT) + b"trailing words") == (TEXT, ["trailing_bytes"])


def test_containers_that_are_no_logs_are_refused_with_a_way_out() -> None:
    with pytest.raises(InputError, match="zip archive") as caught:
        unpack(b"PK\x03\x04" + b"\0" * 30)
    assert caught.value.hint


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_with_a_mark_is_read(encoding: str) -> None:
    mark = "\ufeff".encode(encoding)
    assert unpack(mark + 'a "ü"\r\nb\n'.encode(encoding))[0] == 'a "ü"\r\nb\n'.encode()


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(st.sampled_from([b"\n", b"ab", b"c" * 9, b"\r\n", b"", b"d" * 40]), max_size=40).map(b"".join),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    size=st.integers(1, 50),
)
def test_blocks_lose_nothing_and_number_every_line(data: bytes, sizes: list[int], size: int) -> None:
    chunks, at, turn = [], 0, 0
    while at < len(data):
        step = sizes[turn % len(sizes)]
        chunks.append(data[at : at + step])
        at, turn = at + step, turn + 1
    got = list(blocks(chunks, size=size))
    assert b"".join(b.data + (b"" if b.open else b"\n") for b in got) == data
    offset, line = 0, 1
    for block in got:
        assert (block.offset, block.first) == (offset, line)
        assert block.count == block.data.count(b"\n") + 1
        offset, line = block.end, line + block.count
    assert offset == len(data)
    assert [b.open for b in got[:-1]] == [False] * (len(got) - 1)


def test_a_line_that_is_too_long_is_dropped_alone_and_the_numbers_go_on() -> None:
    data = b"one\n" + b"x" * 500 + b"\nthree\nfour"
    got = list(blocks([data[i : i + 7] for i in range(0, len(data), 7)], size=16, max_line=100))
    long = [b for b in got if b.too_long is not None]
    assert [(b.first, b.end) for b in long] == [(2, 4 + 501)]
    assert (long[0].too_long or b"").startswith(b"xxx")
    rest = [(b.first, b.data) for b in got if b.too_long is None]
    assert rest[0] == (1, b"one")
    assert rest[-1] == (4, b"four")
    assert sum(b.count for b in got) == 4


def test_an_endless_last_line_is_open_and_too_long() -> None:
    got = list(blocks([b"a\n", b"x" * 300], size=10, max_line=100))
    assert [(b.first, b.open, b.too_long is not None) for b in got] == [(1, False, False), (2, True, True)]


def test_decoding_keeps_json_valid_and_counts_bad_lines() -> None:
    text, bad = decode(b'{"a":"\xff\xfe"}\n{"b":1}\n{"c":"\xc3"}', json=True)
    assert bad == 2
    assert text.split("\n")[0] == '{"a":"\\\\xff\\\\xfe"}'
    assert decode(b"caf\xe9", json=False) == ("caf\\xe9", 1)


def test_marks_carriage_returns_and_nul_runs_are_taken_off() -> None:
    assert decode(b"\xef\xbb\xbfa\r\nb\r", json=False, first_in_file=True) == ("a\nb", 0)
    assert decode(b"\xef\xbb\xbfa", json=False)[0] == "\ufeffa"
    assert decode(b'\0\0\0{"a":1}\nx\0y\n\0', json=True)[0] == '{"a":1}\nx\0y\n'


def test_paths_globs_and_folders(tmp_path: Path) -> None:
    for name in ("b.log", "a.log", "deep/c.log", ".hidden", "deep/.git/x", "h.duckdb", "h.duckdb.wal"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    base = str(tmp_path)
    assert [Path(p).name for p in expand([base])] == ["a.log", "b.log", "c.log"]
    assert [Path(p).name for p in expand([f"{base}/*.log", f"{base}/a.log", "-", "-"])] == ["a.log", "b.log", "-"]
    assert [Path(p).name for p in expand([f"{base}/**/*.log"])] == ["a.log", "b.log", "c.log"]
    with pytest.raises(InputError, match="no such file"):
        expand([f"{base}/none.log"])
    with pytest.raises(InputError, match="no such file"):
        expand([f"{base}/none*.log"])
