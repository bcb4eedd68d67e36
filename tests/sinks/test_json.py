"""The json sink."""

import json
import math
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog.core import records
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import Event, Step
from chiplog.sinks.json import Json, open_sink


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def read(path):
    return json.loads(path.read_bytes(), parse_constant=refuse)


def test_the_file_is_a_valid_array_after_every_write(tmp_path):
    """From the first moment on the whole file parses, and holds what was written."""
    sink = open_sink(Identity("p", "r", tmp_path, "n", "l"), {})
    assert isinstance(sink, Sink)
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "r00000-a01-0000.jsonl").touch()
    path = tmp_path / "files" / "metrics.json"
    sink.write([])
    assert read(path) == []
    wanted = []
    for number in range(5):
        batch = [Step(number, 1763208000123456789, number, {"loss": 0.5})] * (number % 3)
        sink.write(batch)
        wanted += [records.fields(record) for record in batch]
        assert read(path) == wanted
    sink.close()
    assert read(path) == wanted
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().startswith(b'[\n{"log":"step",') and path.read_bytes().endswith(b"}\n]\n")


def test_strings_are_escaped_and_numbers_exact(tmp_path):
    """Quotes, control characters and lone surrogates are escaped; non-finite numbers are strings; ints are exact."""
    sink = Json(tmp_path / "x.json")
    sink.write([Step(0, 1, 1, {'"\n\x1b\ud800]': math.nan, "a": -math.inf, "b": 2**70, "c": True})])
    sink.write([Event(1, 2, "note", {"text": "]\n}, null"})])
    assert read(sink.path)[0]["metrics"] == {'"\n\x1b\\ud800]': "nan", "a": "-inf", "b": 2**70, "c": True}
    assert read(sink.path)[1]["data"] == {"text": "]\n}, null"}


def test_a_write_costs_its_own_bytes(tmp_path):
    """The file is never read or written again as a whole: it grows by what is new, in place."""
    sink = Json(tmp_path / "x.json")
    sink.write([Step(1000, 1, 1000, {})])
    stat = sink.path.stat()
    for number in range(1001, 1500):
        sink.write([Step(number, 1, number, {})])
        grown = sink.path.stat()
        assert grown.st_size - stat.st_size == len(b",\n") + len(records.encode(Step(number, 1, number, {})))
        assert grown.st_ino == stat.st_ino
        stat = grown


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"[\n]\n", b'[{"a": 1}]', b'[\n {"a": 1},\n {"b": [2]}\n]', b" [1 , 2] "]
)
def test_it_is_opened_again_without_losing_what_it_held(tmp_path, capsys, content):
    """Whoever wrote the array and however it is laid out, it is continued."""
    path = tmp_path / "x.json"
    path.write_bytes(content)
    sink = Json(path)
    sink.write([Step(0, 1, 1, {})])
    sink.close()
    again = Json(path)
    again.write([Step(1, 1, 2, {})])
    again.close()
    held = json.loads(content or b"[]")
    assert read(path) == [*held, *(records.fields(Step(n, 1, n + 1, {})) for n in (0, 1))]
    assert os.listdir(tmp_path) == ["x.json"]
    assert capsys.readouterr().err == ""


def test_whatever_is_whole_survives_a_cut_at_any_byte(tmp_path, capsys):
    """Cut anywhere, the file keeps its whole records, and the damaged one is kept beside it with a word."""
    path = tmp_path / "x.json"
    sink = Json(path)
    steps = [Step(number, 1, number, {"é]": 0.5, '"},': "x"}) for number in range(3)]
    for step in steps:
        sink.write([step])
    sink.close()
    whole = path.read_bytes()
    for cut in range(len(whole) - 3):
        directory = tmp_path / str(cut)
        directory.mkdir()
        damaged = directory / "x.json"
        damaged.write_bytes(whole[:cut])
        kept = sum(whole[:cut].count(line) for line in map(records.encode, steps))
        again = Json(damaged)
        again.write(steps[:1])
        again.close()
        assert read(damaged) == [records.fields(step) for step in [*steps[:kept], steps[0]]]
        if cut:
            assert (directory / "x.json.damaged-1").read_bytes() == whole[:cut]
            assert f"its {kept} whole records are kept" in capsys.readouterr().err


@pytest.mark.parametrize("end", [b"\0\0\0", b"\xff]", b"]]", b"garbage\n]\n", b",]"])
def test_other_damage_at_the_end(tmp_path, end):
    """Zeros, bytes that are not text and brackets too many are damage as well."""
    path = tmp_path / "x.json"
    path.write_bytes(b'[\n{"a":1},\n{"b":2}\n' + end)
    sink = Json(path)
    sink.write([Step(0, 1, 1, {})])
    assert read(path) == [{"a": 1}, {"b": 2}, records.fields(Step(0, 1, 1, {}))]
    assert (tmp_path / "x.json.damaged-1").exists()


def test_an_empty_state_is_the_beginning(tmp_path):
    """Restoring nothing leaves an empty array."""
    path = tmp_path / "x.json"
    path.write_bytes(b'[{"a":1}]')
    sink = Json(path)
    sink.restore({})
    assert read(path) == []
    sink.write([Step(0, 1, 1, {})])
    assert len(read(path)) == 1


def test_a_file_cut_by_somebody_else_is_continued(tmp_path, capsys):
    """When less is there than the state says, the whole records are kept."""
    sink = Json(tmp_path / "x.json")
    sink.write([Step(number, 1, number, {}) for number in range(3)])
    state = sink.state()
    sink.path.write_bytes(sink.path.read_bytes()[:-9])
    sink.restore(state)
    sink.write([Step(9, 1, 9, {})])
    assert [record["seq"] for record in read(sink.path)] == [0, 1, 9]
    assert "was cut" in capsys.readouterr().err


@settings(max_examples=50, deadline=None)
@given(batches=st.lists(st.integers(0, 3), max_size=6), torn=st.binary(max_size=20), data=st.data())
def test_every_record_is_there_exactly_once(tmp_path_factory, batches, torn, data):
    """Going back to a stored state and writing again gives what a calm run gives, also in another process."""
    path: Path = tmp_path_factory.mktemp("json") / "x.json"
    sink, kept, state, wanted = Json(path), 0, {}, []
    for number, size in enumerate(batches):
        batch = [Step(number, 1, size, {"a": number})] * size
        wanted += [records.fields(record) for record in batch]
        sink.write(batch)
        with path.open("ab") as file:
            file.write(torn)
        sink = data.draw(st.sampled_from([sink, Json(path)]))
        sink.restore(msgspec.json.decode(msgspec.json.encode(state)))
        for again in range(kept, number + 1):
            sink.write([Step(again, 1, batches[again], {"a": again})] * batches[again])
        assert read(path) == wanted
        if data.draw(st.booleans()):
            kept, state = number + 1, sink.state()


def test_only_a_regular_file_is_renamed(tmp_path):
    """A directory at the path stays where it is, and the sink fails with the reason."""
    folder = tmp_path / "o"
    folder.mkdir()
    (folder / "kept").touch()
    sink = Json(folder, own=True, fresh=True)
    with pytest.raises(OSError, match="o is not a regular file"):
        sink.write([])
    assert [path.name for path in tmp_path.iterdir()] == ["o"] and (folder / "kept").exists()
