"""The jsonl sink."""

import json
import math
import shutil
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog.core import records
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import Event, Step, Unknown
from chiplog.sinks.jsonl import Jsonl, open_sink


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def read(path):
    return [json.loads(line, parse_constant=refuse) for line in path.read_text().split("\n")[:-1]]


def test_every_record_is_a_line(tmp_path):
    """A line is the record's fields as strict JSON, its time in nanoseconds."""
    batch = [
        Step(0, 1763208000123456789, 1, {"loss": math.nan, "top": -math.inf, "big": 2**70, "ok": True}),
        Event(1, 2, "note", {"text": "null \x1b\u2028", "none": None}),
        Unknown("new", 2, 3, {"seq": 2, "time": 3, "x": [1]}),
    ]
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "r00000-a01-0000.jsonl").touch()
    sink = open_sink(Identity("p", "r", tmp_path, "n", "l"), {})
    assert isinstance(sink, Sink)
    sink.write(batch)
    sink.write([])
    sink.close()
    path = tmp_path / "files" / "metrics.jsonl"
    assert read(path) == [records.fields(record) for record in batch]
    assert read(path)[0]["metrics"] == {"loss": "nan", "top": "-inf", "big": 2**70, "ok": True}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lone_surrogate_is_escaped(tmp_path):
    """What UTF-8 cannot say never stops the file."""
    sink = Jsonl(tmp_path / "x.jsonl")
    sink.write([Step(0, 1, 1, {"a\ud800": 1})])
    assert read(sink.path)[0]["metrics"] == {"a\\ud800": 1}


def test_a_file_that_was_there_is_continued(tmp_path):
    """Opened again it goes on behind what it held; a torn last line is dropped, a whole one gets its newline."""
    path = tmp_path / "x.jsonl"
    for content, kept in ((b'{"a":1}\n', 1), (b'{"a":1}', 1), (b'{"a":1}\n{"b":', 1), (b'{"b":', 0), (b"", 0)):
        path.write_bytes(content)
        sink = Jsonl(path)
        sink.write([Step(0, 1, 1, {})])
        sink.close()
        assert len(read(path)) == kept + 1


def test_an_empty_state_is_the_beginning(tmp_path):
    """Restoring nothing leaves nothing."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":1}\n')
    Jsonl(path).restore({})
    assert path.read_bytes() == b""


def test_a_file_cut_by_somebody_else_is_continued(tmp_path, capsys):
    """When less is there than the state says, the whole lines are kept and it is said."""
    sink = Jsonl(tmp_path / "x.jsonl")
    sink.write([Step(number, 1, number, {}) for number in range(3)])
    state = sink.state()
    sink.path.write_bytes(sink.path.read_bytes()[:-3])
    sink.restore(state)
    sink.write([Step(9, 1, 9, {})])
    assert [line["seq"] for line in read(sink.path)] == [0, 1, 9]
    assert "changed by another program" in capsys.readouterr().err


def test_a_file_deleted_with_its_folder_is_begun_again(tmp_path, capsys):
    """What was delivered before is not there, and it is said; the journal still has it."""
    sink = Jsonl(tmp_path / "files" / "x.jsonl")
    sink.write([Step(0, 1, 0, {})])
    state = sink.state()
    shutil.rmtree(sink.path.parent)
    sink.restore(state)
    sink.write([Step(9, 1, 9, {})])
    assert [line["seq"] for line in read(sink.path)] == [9]
    assert "changed by another program; 0 bytes" in capsys.readouterr().err


@settings(max_examples=50, deadline=None)
@given(batches=st.lists(st.integers(0, 3), max_size=6), torn=st.binary(max_size=20), data=st.data())
def test_every_record_is_there_exactly_once(tmp_path_factory, batches, torn, data):
    """Going back to a stored state and writing again gives what a calm run gives, also in another process."""
    path: Path = tmp_path_factory.mktemp("jsonl") / "x.jsonl"
    sink, kept, state, wanted = Jsonl(path), 0, {}, b""
    for number, size in enumerate(batches):
        batch = [Step(number, 1, size, {"a": number})] * size
        wanted += b"".join(records.encode(record) + b"\n" for record in batch)
        sink.write(batch)
        with path.open("ab") as file:
            file.write(torn)
        sink = data.draw(st.sampled_from([sink, Jsonl(path)]))
        sink.restore(msgspec.json.decode(msgspec.json.encode(state)))
        for again in range(kept, number + 1):
            sink.write([Step(again, 1, batches[again], {"a": again})] * batches[again])
        assert path.read_bytes() == wanted
        if data.draw(st.booleans()):
            kept, state = number + 1, sink.state()
