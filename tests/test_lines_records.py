"""Lines that are no single JSON object, JSON documents, tables and envelopes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgectl.lines import ENVELOPES, Table, find_envelope, look_again, records
from hedgectl.lines.records import Record


def told(line: str, *, complete: bool = True) -> list[tuple[str, str | None]]:
    return [
        (r.text if r.counted_as == "object" else r.counted_as, r.reason) for r in look_again(line, complete=complete)
    ]


def test_glued_records_are_split_and_a_cut_one_is_told() -> None:
    assert told('{"a":1}{"b":2}, {"c":3}') == [('{"a":1}', None), ('{"b":2}', None), ('{"c":3}', None)]
    assert told('{"a":1}{"b":') == [('{"a":1}', None), ("rejected", "cut_json")]


def test_a_record_written_into_a_half_written_one_is_saved() -> None:
    assert told('{"a":1,"text":"hel{"ts":2}') == [("rejected", "cut_json"), ('{"ts":2}', None)]
    # the inner object of a cut record is no record
    assert told('{"a":1,"inner":{"ts":2}') == [("rejected", "cut_json")]


def test_arrays_give_their_elements_with_their_digits() -> None:
    line = '[{"t":1763632801.1234567890123}, 5, {"u":[1,2]}]'
    assert told(line) == [
        ('{"t":1763632801.1234567890123}', None),
        ("rejected", "not_an_object"),
        ('{"u":[1,2]}', None),
    ]
    assert told("[]") == [("not_request", "empty_array")]


def test_nan_is_no_json_but_the_word_in_a_text_is_fine() -> None:
    assert told('{"a":NaN}') == [("rejected", "nan_in_json")]
    assert told('{"a":[-Infinity]}{"b":1}') == [("rejected", "nan_in_json"), ('{"b":1}', None)]
    assert told('{"a":"x: NaN, y"}') == [('{"a":"x: NaN, y"}', None)]


def test_what_breaks_off_behind_a_nan_is_cut_and_a_bare_value_is_no_record() -> None:
    assert told('{"a":NaN') == [("rejected", "cut_json")]
    assert told('{"a":1}{"b":[Infinity,') == [('{"a":1}', None), ("rejected", "cut_json")]
    assert told('{"a":1}"x" 5 {"b":2}') == [
        ('{"a":1}', None),
        ("rejected", "not_an_object"),
        ("rejected", "not_an_object"),
        ('{"b":2}', None),
    ]


def test_a_document_with_a_nan_far_before_its_end_is_read_to_the_end() -> None:
    chunks = [b'{"a": NaN, "pad": "' + b"x" * (1 << 20), b"x" * (1 << 20) + b'"}\n', b'{"b": 1}\n']
    found = [found.record for found in records(chunks, unwrap=True)]
    assert [(r.counted_as, r.reason) for r in found] == [("rejected", "nan_in_json"), ("object", None)]


PIECES = [
    '{"a":1}',
    '{"b":',
    "{",
    "}",
    "[",
    "]",
    '"',
    "NaN",
    "-Infinity",
    ":",
    ",",
    " ",
    "5",
    "true",
    "\x01",
    "\\",
    '"x"',
    "\ud800",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
def test_no_line_of_any_pieces_raises(line: str, complete: bool) -> None:
    for record in look_again(line, complete=complete):
        assert record.counted_as in ("object", "rejected", "not_request")
        if record.counted_as == "object":
            assert isinstance(json.loads(record.text), dict)


def test_lone_surrogates_and_raw_control_characters_are_made_valid() -> None:
    assert told('{"a":"\\ud800x"}') == [('{"a":"\\ufffdx"}', None)]
    assert told('{"a":"\\ud83d\\ude00"}') == [('{"a":"\\ud83d\\ude00"}', None)]
    ((text, reason),) = told('{"a":"tab\there"}')
    assert reason is None
    assert json.loads(text) == {"a": "tab\there"}


def test_what_is_no_json_is_no_request_and_blank_is_nothing() -> None:
    assert told("Traceback (most recent call last):") == [("not_request", "text_line")]
    assert look_again(" \t\r") == []
    assert told("{bad}") == [("rejected", "bad_json")]
    assert told("{bad}", complete=False) == [("rejected", "cut_json")]
    assert told("[" * 100_000)[0][0] == "rejected"


def test_a_shipper_prefix_on_one_line_of_many_is_taken_off() -> None:
    assert told('2026-11-20T10:00:03.1Z stdout F {"a":1}') == [('{"a":1}', None)]


def doc(*chunks: bytes, unwrap: bool = False) -> list[tuple[int, int, Record]]:
    return [(f.line, f.place, f.record) for f in records(chunks, unwrap=unwrap)]


def test_a_pretty_printed_array_is_a_stream_of_records_with_lines() -> None:
    text = json.dumps([{"a": 1, "t": "x\ny"}, {"a": 2}, 7], indent=2).encode()
    got = doc(*[text[i : i + 3] for i in range(0, len(text), 3)])
    assert [(line, r.counted_as) for line, _, r in got] == [(2, "object"), (6, "object"), (9, "rejected")]
    assert [json.loads(r.text) for _, _, r in got[:2]] == [{"a": 1, "t": "x\ny"}, {"a": 2}]
    assert "\n" not in got[0][2].text


def test_pages_are_unwrapped_only_when_asked() -> None:
    pages = b'{"meta":{"data":[{"no":1}]},"data":[{"a":1.50},{"a":2}]}\n{"data":[]}\n{"other":3}'
    assert [r.text for _, _, r in doc(pages, unwrap=True)] == ['{"a":1.50}', '{"a":2}', '{"data":[]}', '{"other":3}']
    assert len(doc(pages)) == 3


def test_a_document_that_breaks_off_or_is_faulty_goes_on_where_it_can() -> None:
    assert [r.reason for _, _, r in doc(b'[{"a":1},\n{"b":')] == [None, "cut_json"]
    got = doc(b'[\n{"a":1},\n{"b":tru},\n{"c":3}\n]')
    assert [(r.counted_as, r.reason) for _, _, r in got] == [
        ("object", None),
        ("rejected", "bad_json"),
        ("object", None),
    ]


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.dictionaries(st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=8), st.none())), max_size=8
    ),
    size=st.integers(1, 9),
    indent=st.sampled_from([None, 1]),
    array=st.booleans(),
)
def test_any_cut_of_the_bytes_gives_the_same_records(
    values: list[dict[str, object]], size: int, indent: int | None, array: bool
) -> None:
    body = json.dumps(values, indent=indent) if array else " ".join(json.dumps(v, indent=indent) for v in values)
    data = body.encode()
    got = doc(*[data[i : i + size] for i in range(0, len(data), size)])
    assert [json.loads(r.text) for _, _, r in got] == values


def test_tables_quote_join_and_tell_rows_that_do_not_fit() -> None:
    table = Table("id;name;ms")
    rows = table.feed(['1;"a;b";5', "2;plain;", '3;"two', 'lines";7', "4;short", "id;name;ms", "", "5;x;6;;"], 2)
    assert [json.loads(t) for t in rows.texts] == [
        {"id": "1", "name": "a;b", "ms": "5"},
        {"id": "2", "name": "plain", "ms": None},
        {"id": "3", "name": "two\nlines", "ms": "7"},
        {"id": "5", "name": "x", "ms": "6"},
    ]
    assert rows.lines == [2, 3, 4, 9]
    assert rows.rejects == [(6, "wrong_field_count", "4;short")]
    assert rows.headers == 1


def test_a_stray_quote_costs_its_own_line_only() -> None:
    table = Table("a,b")
    first = table.feed(['1,"open', *[f"{i},x" for i in range(2, 1200)]], 2)
    assert first.rejects == [(2, "open_quote", '1,"open')]
    assert len(first.texts) == 1198
    assert table.pending == []


WRAPPED = {
    "cri": '2026-11-20T10:00:03.100000000Z stdout F {"a":1}',
    "docker": json.dumps({"log": '{"a":1}\n', "stream": "stdout", "time": "2026-11-20T10:00:03Z"}),
    "journald": json.dumps({"MESSAGE": '{"a":1}', "__REALTIME_TIMESTAMP": "1", "_PID": "3"}),
    "loki": json.dumps({"labels": {"app": "gw"}, "line": '{"a":1}', "timestamp": "2026-11-20T10:00:03Z"}),
    "cloudwatch": json.dumps({"timestamp": 1, "message": '{"a":1}', "ingestionTime": 2}),
    "cloudwatch_text": '2026-11-20T10:00:03.100Z {"a":1}',
    "syslog": '<134>1 2026-11-20T10:00:03Z host app 12 - [x@1 k="v\\"]"] {"a":1}',
}


@pytest.mark.parametrize("name", WRAPPED)
def test_every_envelope_is_found_and_taken_off(name: str) -> None:
    line = WRAPPED[name]
    assert find_envelope([line, "", line]) == name
    inner = ENVELOPES[name](line)
    assert inner is not None
    assert [i.text for i in inner] == ['{"a":1}']


@pytest.mark.parametrize(
    "line",
    [
        "<30>Nov 20 10:00:03 gw app[12]: hello",
        "Nov  2 10:00:03 gw haproxy[7]: hello",
        "2026-11-20T10:00:03.5+00:00 gw haproxy[7]: hello",
    ],
)
def test_syslog_of_all_ages(line: str) -> None:
    inner = ENVELOPES["syslog"](line)
    assert inner is not None
    assert inner[0].text == "hello"


def test_batches_and_binary_messages() -> None:
    batch = json.dumps(
        {"logEvents": [{"id": "1", "timestamp": 1, "message": "x\n"}, {"id": "2", "timestamp": 1, "message": "y"}]}
    )
    assert [i.text for i in ENVELOPES["cloudwatch"](batch) or ()] == ["x", "y"]
    streams = json.dumps(
        {
            "status": "success",
            "data": {"resultType": "streams", "result": [{"stream": {}, "values": [["1", "x"], ["2", "y"]]}]},
        }
    )
    assert [i.text for i in ENVELOPES["loki"](streams) or ()] == ["x", "y"]
    binary = json.dumps({"MESSAGE": list(b"\xffz"), "_PID": "1"})
    assert [i.text for i in ENVELOPES["journald"](binary) or ()] == ["\\xffz"]


def test_plain_logs_wear_no_envelope() -> None:
    assert find_envelope(['{"ts":"2026-11-20T10:00:00Z","e2e_ms":5}']) is None
    assert find_envelope(["INFO 2026-11-20 10:00:00 engine started, 4 workers"]) is None
    assert find_envelope(['192.0.2.7 - - [20/Nov/2026:10:00:02 +0000] "POST / HTTP/1.1" 200 5']) is None
    assert find_envelope(["", " "]) is None
