"""What a process prints is kept, and printing is what it was."""

from __future__ import annotations

import inspect
import io
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core import records
from chiplog.core.errors import BadSetting
from chiplog.runtime.process import capture as engine
from chiplog.runtime.process.capture import BURST, CHUNK, CONTINUED, LINE, Capture


class Streams:
    """Two streams in the place of the process's own, and a capture that listens to them."""

    def __init__(self) -> None:
        self._raw = io.BytesIO()
        self.out = io.TextIOWrapper(io.BufferedWriter(self._raw), encoding="utf-8", write_through=True)  # type: ignore[arg-type]
        self.err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", line_buffering=True)
        self.written: list[records.ConsoleRecord] = []
        self.capture = Capture(self._write, lambda: 1_000)

    def _write(self, kind: type[records.ConsoleRecord], **fields: Any) -> None:
        self.written.append(kind(len(self.written), 0, **fields))

    def kept(self) -> list[str]:
        """Everything that has been ended, in order."""
        self.capture.collect()
        return [text for one in self.written for at, text in enumerate(one.lines) if at not in one.open]

    def open_lines(self) -> list[str]:
        """What the newest record says is not ended."""
        self.capture.collect()
        return [self.written[-1].lines[at] for at in self.written[-1].open]

    def shown(self) -> bytes:
        sys.stdout.flush()
        return self._raw.getvalue()


def listening(test: Callable[..., None]) -> Callable[..., None]:
    """Give a test its `streams`. No fixture can: pytest has streams of its own for the time of the test itself."""

    @wraps(test)
    def inner(**fixtures: Any) -> None:
        streams = Streams()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", streams.out)
            patch.setattr(sys, "stderr", streams.err)
            streams.capture.open()
            test(streams=streams, **fixtures)
            streams.capture.close()

    signature = inspect.signature(test)
    rest = [one for name, one in signature.parameters.items() if name != "streams"]
    inner.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
    return inner


@listening
def test_lines_of_both_streams_are_kept_in_their_order(streams: Streams) -> None:
    """Each says where it went; and the streams got what they were given."""
    print("one", 2)
    print("oh", file=sys.stderr)
    sys.stdout.writelines(["three\n", "four"])
    print()
    assert streams.kept() == ["one 2", "oh", "three", "four"]
    assert streams.written[0].stderr == [1]
    assert streams.shown() == b"one 2\nthree\nfour\n"


@listening
def test_the_streams_stay_what_they_are(streams: Streams) -> None:
    """The same objects, with their own methods for everything but writing; `write` counts as it did."""
    assert sys.stdout is streams.out and isinstance(sys.stdout, io.TextIOWrapper)
    assert sys.stdout.write("äö") == 2
    assert sys.stdout.buffer.write(b"xyz") == 3
    assert sys.stdout.encoding == "utf-8" and not sys.stdout.isatty()
    with pytest.raises(TypeError):
        sys.stdout.write(b"no text")  # type: ignore[arg-type]
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    assert streams.open_lines() == ["äöxyz"]


def test_a_handler_that_was_there_before_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging holds the stream that it found when it was set up."""
    streams = Streams()
    monkeypatch.setattr(sys, "stderr", streams.err)
    handler = logging.StreamHandler()
    streams.capture.open()
    handler.emit(logging.makeLogRecord({"msg": "from before"}))
    assert streams.kept() == ["from before"]
    streams.capture.close()


@listening
def test_binary_output_is_kept_as_text_once(streams: Streams) -> None:
    """Bytes that are not text are marked; what the text layer hands down was heard already."""
    print("text")
    sys.stdout.flush()
    for byte in "né".encode():
        sys.stdout.buffer.write(bytes([byte]))
    sys.stdout.buffer.write(bytearray(b"\xff\x00\n"))
    sys.stdout.buffer.writelines([b"more\n"])
    assert streams.kept() == ["text", "né\ufffd\x00", "more"]
    assert streams.shown() == "text\nné".encode() + b"\xff\x00\nmore\n"


@listening
def test_of_a_progress_bar_the_last_state_is_kept(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it was drawn; while it is drawn, now and then where it is."""
    monkeypatch.setattr(engine, "REDRAWN", 0.0)
    for percent in range(50):
        sys.stderr.write(f"\r{percent}%")
    assert streams.open_lines() == ["49%"]
    for percent in range(50, 101):
        sys.stderr.write(f"{percent}%\r")
    assert streams.open_lines() == ["100%"]
    monkeypatch.setattr(engine, "REDRAWN", 60.0)
    sys.stderr.write("bye\r")
    before = len(streams.written)
    streams.capture.collect()
    assert len(streams.written) == before
    sys.stderr.write("\r    \rdone\r\nnext\r\n")
    assert streams.kept() == ["done", "next"]


@listening
def test_tqdm_leaves_one_line(streams: Streams) -> None:
    """The real one: its last state, and what it prints between."""
    tqdm = pytest.importorskip("tqdm").tqdm
    for step in tqdm(range(300), mininterval=0, file=sys.stderr, ascii=True):
        if step == 150:
            tqdm.write("half of it", file=sys.stderr)
    kept = streams.kept()
    assert kept[0] == "half of it" and len(kept) == 2
    assert kept[1].startswith("100%|####") and "300/300" in kept[1]


@listening
def test_a_line_that_does_not_end_is_kept_too(streams: Streams) -> None:
    """Open, as far as it goes; what ends it takes its place."""
    sys.stdout.write("loading ... ")
    assert streams.open_lines() == ["loading ... "]
    print("done")
    assert streams.kept() == ["loading ... done"]
    sys.stdout.write("last words")
    streams.capture.close()
    assert streams.kept()[-1] == "last words"


@listening
def test_a_long_line_goes_on_in_another(streams: Streams) -> None:
    """Cut at 8 KiB, and marked; one write of many megabytes is cut short, and says by how much."""
    sys.stdout.write("x" * (LINE + 2000))
    sys.stdout.write("y" * 10 + "\n")
    first, second = streams.kept()
    assert first == "x" * LINE + CONTINUED and second == "x" * 2000 + "y" * 10
    print("z" * 12_000_000)
    kept = streams.kept()
    assert len(kept) == 2 + CHUNK // LINE
    assert kept[-1].endswith(f"z … [{12_000_000 - CHUNK:,} characters cut]")
    assert max(map(len, kept)) < LINE + 1000


@listening
def test_a_flood_keeps_its_end_and_counts_the_rest(streams: Streams) -> None:
    """Bounded memory, whatever is printed; and the error at the end of it is there."""
    for number in range(100_000):
        print(f"line {number} of very many lines")
    assert streams.capture._held <= BURST
    print("the error")
    kept = streams.kept()
    assert kept[-1] == "the error" and kept[-2] == "line 99999 of very many lines"
    lost = int(kept[0].removeprefix("… ").removesuffix(" lines not kept").replace(",", ""))
    assert lost + len(kept) - 2 in (100_000, 100_001)  # one may have lost its first half
    assert sum(map(len, kept)) < BURST
    for _ in range(200_000):  # it goes on: hardly any room has come back
        print("again and again and again and again")
    assert sum(map(len, streams.kept())) < BURST + BURST // 4


@listening
def test_a_flood_without_a_newline_is_counted_in_characters(streams: Streams) -> None:
    """There are no lines to count."""
    for _ in range(40_000):
        sys.stdout.write("." * 20)
    kept = streams.kept()
    assert kept[0].endswith(" characters not kept")
    assert all(line.endswith(CONTINUED) for line in kept[1:])


@listening
def test_secrets_are_hidden_also_where_a_line_is_cut(streams: Streams) -> None:
    """By their name, by their shape, over several writes, across a cut; and all of a private key."""
    key = "hf_" + "a1b2c3d4" * 4
    sys.stdout.write("password=hun")
    sys.stdout.write("ter2 and ")
    sys.stdout.write(key[:20])
    sys.stdout.write(key[20:] + "\n")
    for at in range(LINE - 40, LINE + 10, 7):
        print("x" * at + " " + key + " " + "y" * 3000)
    print("-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nqwertz\n-----END RSA PRIVATE KEY-----\nafter it")
    text = "\n".join(streams.kept())
    assert "hunter2" not in text and "a1b2c3" not in text and "MIIE" not in text and "qwertz" not in text
    assert text.startswith("password=[redacted] and [redacted]\n") and text.endswith("[redacted]\nafter it")


@listening
def test_what_others_put_over_it_stays(streams: Streams) -> None:
    """Whoever has taken `write` in between keeps it; ours only passes on from then on."""
    ours = sys.stdout.write
    seen: list[str] = []

    def theirs(text: str) -> int:
        seen.append(text)
        return ours(text)

    sys.stdout.write = theirs  # type: ignore[method-assign]
    print("both")
    assert streams.kept() == ["both"]
    streams.capture.close()
    print("theirs alone")
    assert sys.stdout.write is theirs and "".join(seen) == "both\ntheirs alone\n"
    assert streams.kept() == ["both"] and streams.shown().endswith(b"theirs alone\n")
    assert "write" not in vars(sys.stderr) and "flush" not in vars(sys.stderr)


def test_a_stream_that_fails_fails_its_caller_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What raises is what would have raised; nothing is kept of what was not written."""

    class Broken:
        def write(self, text: str) -> int:
            raise BrokenPipeError

    streams = Streams()
    monkeypatch.setattr(sys, "stdout", Broken())
    monkeypatch.setattr(sys, "stderr", None)
    streams.capture.open()
    with pytest.raises(BrokenPipeError):
        print("nobody there")
    assert streams.kept() == []
    streams.capture.close()


def test_streams_that_cannot_be_heard_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the other one still is."""

    class Closed:
        __slots__ = ()

        def write(self, text: str) -> int:
            return len(text)

    streams = Streams()
    monkeypatch.setattr(sys, "stdout", Closed())
    streams.capture.open()
    assert "sys.stdout cannot be captured" in capsys.readouterr().err
    print("still", file=sys.stderr)
    assert "still" in streams.kept()
    streams.capture.close()


@listening
def test_odd_strings_are_kept_as_what_they_print(streams: Streams) -> None:
    """Lone surrogates, and kinds of strings that are somebody's own."""

    class Mine(str):
        def __len__(self) -> int:
            raise RuntimeError

        def __str__(self) -> str:
            raise RuntimeError

    sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    print("a\udcffb")
    sys.stdout.write(Mine("passed on\n"))
    print("after")
    assert streams.kept() == ["a\\udcffb", "after"]
    assert streams.shown() == b"a\xffb\npassed on\nafter\n"


@listening
def test_many_threads_lose_nothing(streams: Streams) -> None:
    """Whole lines of each, in its own order, while they are collected."""

    def work(name: int) -> None:
        for number in range(200):
            sys.stdout.write(f"{name}:{number}\n")

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        streams.capture.collect()
    kept = streams.kept()
    assert len(kept) == 1600
    for name in range(8):
        assert [line for line in kept if line.startswith(f"{name}:")] == [f"{name}:{at}" for at in range(200)]


@pytest.mark.filterwarnings("ignore")  # of JAX, if another test of this process has imported it
@listening
def test_a_forked_child_passes_through(streams: Streams) -> None:
    """What it prints belongs to no run."""
    print("parent")
    child = os.fork()
    if not child:
        print("child")
        os._exit(0 if len(streams.capture._chunks) == 2 else 1)  # the parent's line and its newline
    assert os.waitpid(child, 0)[1] == 0
    assert streams.kept() == ["parent"]


def test_a_run_keeps_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Between `init` and `finish`; not what the console sink says of the run, which is in its rows."""
    before = sys.stdout.write
    run = chiplog.init("p", dir=tmp_path, sinks="console", capture=True, tags="x")
    run.log({"loss": 0.5}, step=1)
    print("hello")
    run.flush()
    assert [line.text for line in chiplog.read(run.dir).console()] == ["hello"]
    print("bye", file=sys.stderr)
    run.finish()
    print("too late")
    lines = chiplog.read(run.dir).console()
    assert [(line.text, line.stream, line.rank, line.attempt) for line in lines] == [
        ("hello", "stdout", 0, 1),
        ("bye", "stderr", 0, 1),
    ]
    assert all(abs(line.time - run.now()) < 60e9 for line in lines)
    assert sys.stdout.write == before
    out = capsys.readouterr().out
    assert "hello" in out and "loss" in out and "too late" in out


def test_a_run_that_fails_keeps_its_traceback(tmp_path: Path) -> None:
    """Also where it ends before Python prints it."""
    with pytest.raises(ZeroDivisionError), chiplog.init("p", dir=tmp_path, sinks="none", capture=True) as run:
        print("so far so good")
        run.log({"x": 1 / 0})
    lines = [line.text for line in chiplog.read(run.dir).console()]
    assert lines[0] == "so far so good" and lines[1].startswith("Traceback")
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_nothing_is_touched_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams of a training process are its own; a variable asks too."""
    before = vars(sys.stdout).get("write")  # other packages may have left theirs there
    with chiplog.init("p", dir=tmp_path, sinks="none"):
        assert vars(sys.stdout).get("write") is before
    monkeypatch.setenv("CHIPLOG_CAPTURE", "1")
    with chiplog.init("p", dir=tmp_path, sinks="none"):
        assert vars(sys.stdout).get("write") is not before
    assert vars(sys.stdout).get("write") is before
    with pytest.raises(BadSetting, match="capture"):
        chiplog.init("p", dir=tmp_path, capture="sometimes")


def test_two_runs_at_once_keep_it_both(tmp_path: Path) -> None:
    """One within the other, ended in any order."""
    from chiplog import assembly
    from chiplog.core.settings import Settings

    made = [
        assembly.make(Settings(dir=str(tmp_path), sinks={}, capture=True, id=name), {}, [], {}) for name in ("a", "b")
    ]
    print("heard twice")
    made[0].finish()
    print("heard once")
    sys.stdout.buffer.write(b"and in bytes\n")
    made[1].finish()
    said = [[line.text for line in chiplog.read(run.dir).console()] for run in made]
    assert said == [["heard twice"], ["heard twice", "heard once", "and in bytes"]]
    print("heard by nobody")


def test_a_signal_in_the_middle_of_collecting_waits_for_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come: lines are taken by one at a time, in their order."""
    streams = Streams()
    monkeypatch.setattr(sys, "stdout", streams.out)
    streams.capture.open()
    write = streams.capture._write

    def interrupted(*words: Any, **fields: Any) -> None:
        for number in range(2):
            print("from a handler", number)
            streams.capture.collect()
        write(*words, **fields)

    print("first")
    monkeypatch.setattr(streams.capture, "_write", interrupted)
    streams.capture.collect()
    monkeypatch.setattr(streams.capture, "_write", write)
    assert streams.kept() == ["first", "from a handler 0", "from a handler 1"]
    streams.capture.close()
