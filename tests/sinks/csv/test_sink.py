"""The csv sink."""

import csv
import json
import math
import os
import subprocess
import sys
from itertools import islice, pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import Eval, Event, Step, Table
from chiplog.sinks.csv import table
from chiplog.sinks.csv.sink import Csv, open_sink
from chiplog.sinks.shared.history_updates import Updates
from chiplog.sinks.shared.rows import Rows

NOON = 1763208000_123456789  # 2025-11-15T12:00:00.123456789Z


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def step(number, seq=0, **metrics):
    return Step(seq, NOON + number * 10**9, number, metrics)


def test_metrics_become_rows_with_step_and_time(tmp_path):
    """A row has its step, its time in ISO 8601 and a column for each metric in order of first appearance."""
    sink = Csv(tmp_path)
    sink.write([step(0, b=1.5, a=2), step(1, a=3, b=0.25), step(1, c=True)])
    sink.close()
    assert (tmp_path / "metrics.csv").read_bytes().splitlines() == [
        b"step,time,b,a,c",
        b"0,2025-11-15T12:00:00.123456Z,1.5,2,",
        b"1,2025-11-15T12:00:01.123456Z,0.25,3,true",
    ]


def test_the_default_one_writes_to_the_files_of_the_run(tmp_path):
    """open_sink takes the place and the config from the identity."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "r00000-a01-0000.jsonl").touch()
    sink = open_sink(Identity("p", "r", tmp_path, "n", "l", config={"lr": 0.1}), {})
    assert isinstance(sink, Sink)
    sink.write([step(0, a=1)])
    sink.close()
    assert json.loads((tmp_path / "files" / "config.json").read_text()) == {"lr": 0.1}
    assert (tmp_path / "files" / "metrics.csv").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "files" / "config.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700


def test_a_held_row_is_written_when_nothing_new_comes(tmp_path):
    """The newest row waits for more of its step; an empty batch brings it to the file."""
    sink = Csv(tmp_path)
    sink.write([step(0, a=1)])
    assert not (tmp_path / "metrics.csv").exists()
    sink.write([])
    assert len(read(tmp_path / "metrics.csv")) == 2


def test_unjoined_is_one_row_a_record(tmp_path):
    """Without joining, every call is its own row."""
    sink = Csv(tmp_path, rows=Rows(joined=False))
    sink.write([step(1, a=1), step(1, b=2)])
    assert [row[2:] for row in read(tmp_path / "metrics.csv")] == [["a", "b"], ["1", ""], ["", "2"]]


def test_evals_and_events_are_rows(tmp_path):
    """Evals are rows under eval/, the numbers of an event under its name."""
    sink = Csv(tmp_path)
    sink.write([step(1, a=1), Eval(1, NOON, 1, {"loss": 2.5}), Event(2, NOON, "gpu", {"id": 0, "power": 350})])
    sink.close()
    assert [[row[0], *row[2:]] for row in read(tmp_path / "metrics.csv")] == [
        ["step", "a", "eval/loss", "gpu/0/power"],
        ["1", "1", "", ""],
        ["1", "", "2.5", ""],
        ["", "", "", "350"],
    ]


def test_values_are_exact(tmp_path):
    """NaN, infinities, negative zero, subnormals, bools and ints of any size read back as they were."""
    values = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e300, 0.1, 2**70, -(2**63) - 1, True, False, 10**5000]
    sink = Csv(tmp_path)
    sink.write([step(0, **{f"m{place}": value for place, value in enumerate(values)})])
    sink.write([step(1, **{f"m{place}": value for place, value in enumerate(values[3:11], 3)})])
    sink.close()
    _, first, second = read(tmp_path / "metrics.csv")
    assert first[2:5] == ["nan", "inf", "-inf"]
    assert [float(text) for text in first[5:9]] == values[3:7]
    assert math.copysign(1, float(first[5])) == -1
    assert first[9:13] == [str(2**70), str(-(2**63) - 1), "true", "false"]
    assert first[13] == "1" + "0" * 5000
    assert second[5:13] == first[5:13]


def test_any_step_is_kept(tmp_path):
    """Steps may be negative, float or very large, and a time beyond the calendar is given in nanoseconds."""
    sink = Csv(tmp_path)
    sink.write([Step(0, 10**30, -1, {"a": 1}), Step(0, 0, 0.5, {"a": 1}), Step(0, 0, 2**70, {"a": 1})])
    sink.close()
    assert [row[:2] for row in read(tmp_path / "metrics.csv")[1:]] == [
        ["-1", str(10**30)],
        ["0.5", "1970-01-01T00:00:00.000000Z"],
        [str(2**70), "1970-01-01T00:00:00.000000Z"],
    ]


def test_text_is_never_a_formula(tmp_path):
    """Text and headers that a spreadsheet would run get an apostrophe; numbers do not."""
    texts = ['=HYPERLINK("x")', "+1", "-1+cmd", "@SUM", "\tx", "\rx"]
    sink = Csv(tmp_path)
    sink.write([Table(0, NOON, "t", [{"=name": text, "number": -1.5, "below": "-inf"} for text in texts])])
    header, *rows = read(tmp_path / "t.csv")
    assert header == ["'=name", "number", "below"]
    assert rows == [["'" + text, "-1.5", "-inf"] for text in texts]


def test_text_is_quoted_as_in_rfc_4180(tmp_path):
    """Commas, quotes and line ends inside cells read back as they were; nothing and empty text differ."""
    texts = ["a,b", 'say "hi"', "two\nlines", "\u2028", "\0", " space ", "", "é"]
    sink = Csv(tmp_path)
    sink.write([Table(0, NOON, "t", [{"text": text, "other": None} for text in texts])])
    assert [row[0] for row in read(tmp_path / "t.csv")[1:]] == texts
    assert b'\n"",\n' in (tmp_path / "t.csv").read_bytes()


def test_an_empty_row_is_still_a_row(tmp_path):
    """A row of one empty cell is not an empty line, which readers would skip."""
    sink = Csv(tmp_path)
    sink.write([Table(0, NOON, "t", [{"a": None}, {"a": 1}])])
    assert read(tmp_path / "t.csv") == [["a"], [""], ["1"]]


@pytest.mark.parametrize("name", ["", "a\nb", "../../x", "\x1b[2J", "a" * 5000, "\ud800", "é,", '"', "%b"])
def test_any_name_may_be_a_column(tmp_path, name):
    """A metric may have any name; what UTF-8 cannot say is escaped."""
    sink = Csv(tmp_path)
    sink.write([step(0, **{name: 1}), step(1, **{name: 2, "x": 3})])
    sink.close()
    header, *rows = read(tmp_path / "metrics.csv")
    assert header == ["step", "time", name.replace("\ud800", "\\ud800"), "x"]
    assert [row[2:] for row in rows] == [["1", ""], ["2", "3"]]
    assert os.listdir(tmp_path) and set(os.listdir(tmp_path)) == {"metrics.csv", "config.json"}


def test_a_row_costs_the_same_however_long_the_file_is(tmp_path):
    """A new row appends its own bytes to the file and rewrites nothing."""
    sink = Csv(tmp_path)
    sizes, inodes = [], set()
    for number in range(2_000):
        sink.write([step(1000 + number, a=0.5, b=number % 10)])
        sink.write([])
        stat = (tmp_path / "metrics.csv").stat()
        sizes.append(stat.st_size)
        inodes.add(stat.st_ino)
    assert {after - before for before, after in pairwise(sizes)} == {sizes[1] - sizes[0]}
    assert len(inodes) == 1
    assert sink.metrics.rewrites == 0


def test_new_columns_of_one_batch_cost_one_rewrite(tmp_path):
    """However many names are new in a batch, the file is rewritten once, and known ones cost nothing."""
    sink = Csv(tmp_path, rows=Rows(joined=False))
    sink.write([step(0, a=1)])
    sink.write([step(number, **{f"m{number}": number}) for number in range(100)])
    assert sink.metrics.rewrites == 1
    sink.write([step(number, **{f"m{number}": number}) for number in range(100)])
    assert sink.metrics.rewrites == 1
    rows = read(tmp_path / "metrics.csv")
    assert {len(row) for row in rows} == {103}
    assert len(rows) == 202


def test_a_rewrite_keeps_quoted_line_ends(tmp_path, monkeypatch):
    """Rows that go over several lines are still one row after a new column, wherever a piece of the file ends."""
    monkeypatch.setattr(table, "CHUNK", 4096)
    texts = ["x" * length + '\n"quoted", \n' for length in range(0, 300, 7)] * 4
    sink = Csv(tmp_path)
    sink.write([Table(0, NOON, "t", [{"text": text} for text in texts])])
    sink.write([Table(0, NOON, "t", [{"text": "last", "more": 1}])])
    assert sink.tables["t"].rewrites == 1
    assert read(tmp_path / "t.csv") == [["text", "more"], *([text, ""] for text in texts), ["last", "1"]]


def test_there_is_an_end_to_columns(tmp_path, monkeypatch, capsys):
    """A file gets no more columns than a spreadsheet can show, which is said once; known names go on."""
    monkeypatch.setattr(table, "MOST_COLUMNS", 2)
    sink = Csv(tmp_path, rows=Rows(joined=False))
    sink.write([step(0, a=1, b=2, c=3), step(1, d=4, a=5)])
    assert [row[2:] for row in read(tmp_path / "metrics.csv")] == [["a", "b"], ["1", "2"], ["5", ""]]
    assert capsys.readouterr().err.count("the most it may have") == 1


def test_config_is_merged(tmp_path):
    """config.json has what the run began with and every later change."""
    sink = Csv(tmp_path, config={"lr": 0.1, "seed": 1, "bad": math.nan})
    sink.write([])
    assert json.loads((tmp_path / "config.json").read_text()) == {"lr": 0.1, "seed": 1, "bad": "nan"}
    sink.write([Event(0, NOON, "config", {"lr": 0.2, "new": {"deep": [1]}})])
    expected = {"lr": 0.2, "seed": 1, "bad": "nan", "new": {"deep": [1]}}
    assert json.loads((tmp_path / "config.json").read_text()) == expected


def test_tables_become_files_with_their_step(tmp_path):
    """Each table is a file; its rows have the step they were logged at, unless they bring their own."""
    sink = Csv(tmp_path)
    sink.write([Table(0, NOON, "samples", [{"text": "a"}], 10), Table(1, NOON, "own", [{"x": 1, "step": 7}], 10)])
    sink.write([Table(2, NOON, "samples", [{"text": "b", "score": 0.5, "more": [1, {"k": "v"}]}], 20)])
    assert read(tmp_path / "samples.csv") == [
        ["step", "text", "score", "more"],
        ["10", "a", "", ""],
        ["20", "b", "0.5", '[1,{"k":"v"}]'],
    ]
    assert read(tmp_path / "own.csv") == [["step", "x"], ["7", "1"]]


def test_table_names_are_never_paths(tmp_path):
    """Names become safe file names, and two names never share a file."""
    names = ["../../etc/passwd", "a/b", "a:b", "A-b", "metrics", "", "..", "é", "x" * 500, "a\0b"]
    sink = Csv(tmp_path / "out")
    sink.write([Table(0, NOON, name, [{"name": name}]) for name in names])
    assert os.listdir(tmp_path) == ["out"]
    assert {read(path)[1][0] for path in (tmp_path / "out").glob("*.csv")} == {*names}
    assert (tmp_path / "out" / "etc-passwd.csv").exists()
    assert (tmp_path / "out" / "metrics-2.csv").exists()


def test_a_file_that_was_there_is_kept(tmp_path, capsys):
    """A sink that starts from scratch moves an older file aside and says so."""
    (tmp_path / "metrics.csv").write_text("mine")
    (tmp_path / "metrics.1.csv").write_text("older")
    sink = Csv(tmp_path)
    sink.write([step(0, a=1)])
    sink.close()
    assert (tmp_path / "metrics.2.csv").read_text() == "mine"
    assert (tmp_path / "metrics.1.csv").read_text() == "older"
    assert len(read(tmp_path / "metrics.csv")) == 2
    assert "the old file is now metrics.2.csv" in capsys.readouterr().err


def test_files_of_another_run_are_kept_when_the_first_state_is_taken(tmp_path):
    """What a courier does before the first record: it stores the state, and restores it."""
    (tmp_path / "metrics.csv").write_text("mine")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "t.csv").write_text("my table")
    sink = Csv(tmp_path, config={"lr": 1})
    sink.restore(sink.state())
    again = Csv(tmp_path, config={"lr": 1})
    again.restore(sink.state())
    again.write([step(0, a=1), Table(0, NOON, "t", [{"a": 1}])])
    again.close()
    assert (tmp_path / "metrics.1.csv").read_text() == "mine"
    assert (tmp_path / "config.1.json").read_text() == "{}"
    assert (tmp_path / "t.1.csv").read_text() == "my table"
    assert read(tmp_path / "t.csv") == [["a"], ["1"]]


def test_an_empty_state_is_the_beginning(tmp_path):
    """Restoring nothing leaves nothing, whatever a killed writer has left."""
    before = Csv(tmp_path)
    before.write([step(0, a=1), Table(0, NOON, "t", [{"a": 1}])])
    before.close()
    sink = Csv(tmp_path)
    sink.restore({})
    sink.write([step(0, b=1), Table(0, NOON, "t", [{"b": 1}])])
    sink.close()
    assert read(tmp_path / "metrics.csv")[0] == ["step", "time", "b"]
    assert read(tmp_path / "t.csv") == [["b"], ["1"]]
    assert sorted(os.listdir(tmp_path)) == ["config.json", "metrics.csv", "t.csv"]


def test_a_file_cut_by_somebody_else_is_continued(tmp_path, capsys):
    """When less is there than the state says, the whole rows that are left are kept and it is said."""
    sink = Csv(tmp_path)
    sink.write([step(number, a=number) for number in range(10)])
    sink.write([])
    state = sink.state()
    path = tmp_path / "metrics.csv"
    path.write_bytes(path.read_bytes()[:-40])
    again = Csv(tmp_path)
    again.restore(state)
    again.write([step(10, a=10, b=1)])
    again.close()
    assert [row[2:] for row in read(path)][-2:] == [["7", ""], ["10", "1"]]
    assert "8 of 10 rows" in capsys.readouterr().err
    path.unlink()
    again.restore(state)
    again.write([step(11, a=11)])
    again.close()
    assert [row[2:] for row in read(path)] == [["a"], ["11"]]


def test_a_restore_that_fails_is_done_before_the_next_write(tmp_path):
    """While the files cannot be brought back nothing is written to them."""
    sink = Csv(tmp_path, rows=Rows(joined=False))
    sink.write([step(0, a=1)])
    state, good = sink.state(), contents(tmp_path)
    sink.write([step(1, a=1, b=2)])
    sink.close()
    (tmp_path / "metrics.csv").rename(tmp_path / "kept")
    (tmp_path / "metrics.csv").mkdir()  # in the way of the rewrite
    for attempt in (lambda: sink.restore(state), lambda: sink.write([step(1, a=1)]), sink.state):
        with pytest.raises(OSError):
            attempt()
    (tmp_path / "metrics.csv").rmdir()
    (tmp_path / "kept").rename(tmp_path / "metrics.csv")
    assert sink.state() == state
    assert contents(tmp_path) == good


WRITER = """
import sys
from pathlib import Path
import msgspec
from chiplog.core.records import Step, Table
from chiplog.sinks.csv.sink import Csv
from chiplog.core.files import writing

place, cursor = Path(sys.argv[1]), Path(sys.argv[2])
sink = Csv(place)
done, state = msgspec.json.decode(cursor.read_bytes()) if cursor.exists() else (0, {})
sink.restore(state)
for number in range(done, 60):
    rows = [Step(0, number, number, {f"m{number // 3}": 0.5, "all": number}) for _ in range(50)]
    sink.write([*rows, Table(0, number, f"t{number // 20}", [{f"c{number // 7}": "two\\nlines"}] * 20)])
    print(number, flush=True)
    if number % 4 == 0:
        writing.replace(cursor.parent, cursor.name, msgspec.json.encode((number + 1, sink.state())))
sink.close()
print("end", flush=True)
"""


def test_a_killed_writer_is_continued_to_the_same_files(tmp_path):
    """However often the process is killed, the files are in the end what an undisturbed one writes."""

    def run(place, cursor, lines):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, place, cursor], stdout=subprocess.PIPE, text=True
        ) as child:
            for line in islice(child.stdout, lines):
                if line == "end\n":
                    return True
            child.kill()
        return False

    assert run(tmp_path / "calm", tmp_path / "calm.json", None)
    kills = 0
    while not run(tmp_path / "troubled", tmp_path / "troubled.json", 5 + kills % 5):
        kills += 1
    assert kills > 5
    assert contents(tmp_path / "troubled") == contents(tmp_path / "calm")


names = st.sampled_from(["a", "b", "c", "=d", "e,f", "g\nh"])
numbers = st.integers(0, 3) | st.sampled_from([math.nan, math.inf, 0.5, 2**70, True])
texts = st.sampled_from(["x", "two\nlines", 'a"b', "", "=1"])
entries = st.one_of(
    st.builds(Step, st.just(0), st.just(NOON), st.integers(0, 2), st.dictionaries(names, numbers, max_size=3)),
    st.builds(Eval, st.just(0), st.just(NOON), st.integers(0, 2), st.dictionaries(names, numbers, max_size=2)),
    st.builds(
        Table,
        st.just(0),
        st.just(NOON),
        st.sampled_from(["t", "u/v", "u:v"]),
        st.lists(st.dictionaries(names, numbers | texts, min_size=1, max_size=3), max_size=3),
    ),
    st.builds(Event, st.just(0), st.just(NOON), st.just("config"), st.dictionaries(names, st.integers(0, 9))),
)


@settings(max_examples=150, deadline=None)
@given(batches=st.lists(st.lists(entries, max_size=5), min_size=1, max_size=6), data=st.data())
def test_every_record_reaches_the_files_exactly_once(tmp_path_factory, batches, data):
    """From any stored state, after any later batches, going back and writing again gives what a calm run gives."""
    calm_place, place = tmp_path_factory.mktemp("calm"), tmp_path_factory.mktemp("troubled")
    calm = Csv(calm_place, config={"lr": 1})
    pictures = [contents(calm_place)]
    for batch in batches:
        calm.write(batch)
        pictures.append(contents(calm_place))
    sink = Csv(place, config={"lr": 1})
    kept = 0
    state = {}
    for number in range(len(batches)):
        sink.write(batches[number])
        if data.draw(st.booleans(), label="killed"):
            with Path(place / "metrics.csv").open("ab") as file:
                file.write(b"1,2,torn")
            if data.draw(st.booleans(), label="another process"):
                sink = Csv(place, config={"lr": 1})
            sink.restore(msgspec.json.decode(msgspec.json.encode(state)))
            if kept:
                found = contents(place)
                assert {name: found[name] for name in pictures[kept]} == pictures[kept]
            for batch in batches[kept : number + 1]:
                sink.write(batch)
        if data.draw(st.booleans(), label="stored"):
            kept, state = number + 1, sink.state()
        assert contents(place) == pictures[number + 1]
    calm.close()
    sink.close()
    assert contents(place) == contents(calm_place)


@pytest.mark.parametrize(
    ("metrics", "header", "cells"),
    [
        ({"step": 7, "loss": 0.5}, "step,time,loss", "0.5"),
        ({"step": 9, "loss": 0.5}, "step,time,step/value,loss", "9,0.5"),
        ({"time": 1.5, "time/value": 2.5}, "step,time,time/value/value,time/value", "1.5,2.5"),
    ],
)
def test_a_metric_called_as_a_column_makes_no_second_one(
    tmp_path: Path, metrics: dict[str, float], header: str, cells: str
) -> None:
    """`step` that says the same is left out; anything else has a name of its own, and replaces nothing."""
    sink = Csv(tmp_path)
    sink.write([Step(0, 0, 7, metrics)])
    sink.close()
    first, row = (tmp_path / "metrics.csv").read_text().splitlines()
    assert first == header and row.startswith("7,") and row.endswith(f"Z,{cells}")


@pytest.mark.parametrize("batches", [[3], [1, 2], [1, 1, 1]])
@pytest.mark.parametrize("again", [False, True])
def test_a_step_of_ones_own_is_whole_once_it_differs(tmp_path: Path, batches: list[int], again: bool) -> None:
    """Also in the rows where it was the step, whichever batch they came in, and after a restart."""
    rows = [Step(0, 0, step, {"loss": 0.5, "step": step * 10}) for step in range(3)]
    sink = Csv(tmp_path)
    for size in batches:
        sink.write(rows[:size])
        del rows[:size]
        if again:
            state = sink.state()
            sink = Csv(tmp_path)
            sink.restore(state)
    sink.close()
    header, *lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert header == "step,time,loss,step/value"
    assert [line.rpartition(",")[2] for line in lines] == ["0", "10", "20"]


def test_a_column_that_was_added_before_a_kill_is_taken_back(tmp_path: Path) -> None:
    """The file was widened, and the state was not saved: what is written again is there once."""
    sink = Csv(tmp_path)
    sink.write([Step(0, 0, 0, {"loss": 0.5, "step": 0})])
    state = sink.state()
    sink.write([Step(0, 0, 1, {"loss": 0.5, "step": 10})])
    sink = Csv(tmp_path)
    sink.restore(state)
    sink.write([Step(0, 0, 1, {"loss": 0.5, "step": 10})])
    sink.close()
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert [line.split(",")[0::3] for line in lines] == [["step", "step/value"], ["0", "0"], ["1", "10"]]


def test_updates_that_wait_are_written_at_the_end(tmp_path: Path) -> None:
    """A pause does not end them, since a device may take its time."""
    sink = Csv(tmp_path, rows=Updates())
    sink.write([Event(0, 0, "update", {"names": ["a", "v"]}, 1), Step(1, 0, 1, {"a": 1.0})])
    sink.write([])
    assert not (tmp_path / "metrics.csv").exists()
    sink.close()
    assert (tmp_path / "metrics.csv").read_text().splitlines()[1].endswith(",1.0")
