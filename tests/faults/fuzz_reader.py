"""A target for the coverage-guided fuzzer atheris: any bytes, in the place of every file a reader opens.

    python tests/faults/fuzz_reader.py CORPUS -max_total_time=600 -seed=1

The first byte of an input chooses the file, the rest is its content. In the place of a journal it is taken as it is, or
with a right CRC behind each line, which no fuzzer would find. Whatever escapes a reader is a crash.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["chiplog"]):
    import chiplog
    from chiplog.core import records
    from chiplog.sinks import jsonl
    from chiplog.store import layout
    from chiplog.store.journal import cursors, lines
    from chiplog.store.parts import compaction
    from chiplog.store.reader import Stored

SEGMENT = layout.Segment(0, 1, 0)


def target(data: bytes) -> None:
    """One input; the directory is emptied by writing the same files again."""
    where, content = data[:1], data[1:]
    if where == b"j":
        read_journal(content)
    elif where == b"s":
        read_journal(b"".join(lines.sealed(line) + b"\n" for line in content.splitlines() if line))
    elif where == b"m":
        (RUN / layout.IDENTITY).write_bytes(content)
        stored = Stored(RUN)
        assert isinstance(stored.name, str) and isinstance(stored.config, dict)
    elif where == b"c":
        read_cursor(content)
    elif where == b"p":
        read_part(content)


def read_journal(content: bytes) -> None:
    JOURNAL.write_bytes(content)
    scanner = lines.Scanner(JOURNAL)
    for record in scanner.read():
        records.fields(record)
        jsonl.line(record)
        list(records.points(record))
    spans = [(one.start, one.end) for one in scanner.damage]
    assert all(0 <= start <= end <= len(content) for start, end in spans)
    assert spans == sorted(spans)
    stored = Stored(RUN)
    for name in stored.names()[:20]:
        assert len(stored.series(name).exact) == len(stored.series(name).times)
    assert stored.summary is not None and stored.attempts and stored.state
    assert stored.missing is not None and stored.spans() is not None


def read_cursor(content: bytes) -> None:
    (RUN / layout.CURSORS / "sink.json").write_bytes(content)
    cursors.cursors(RUN)
    try:
        cursors.load(RUN / layout.CURSORS / "sink.json")
    except ValueError:
        pass  # what it says it raises


def read_part(content: bytes) -> None:
    part = RUN / layout.PARTS / f"{SEGMENT.stem}.points.parquet"
    part.write_bytes(content)
    stored = Stored(RUN)
    assert stored.summary is not None and stored.missing is not None
    for name in stored.names():
        assert stored.series(name) is not None
    part.unlink()


def seeds(folder: Path) -> None:
    """A small corpus: the files of a real run."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(RUN.rglob("*")):
        if path.is_file() and (where := {"journal": b"j", "cursors": b"c", "parts": b"p"}.get(path.parent.name, b"m")):
            (folder / path.name).write_bytes(where + path.read_bytes())
    unsealed = [line[: line.rfind(b',"crc"')] + b"}" for line in JOURNAL.read_bytes().splitlines()]
    for number, line in enumerate(unsealed):
        (folder / f"line-{number}").write_bytes(b"s" + line + b"\n" + unsealed[0])


def real_run() -> Path:
    run = chiplog.init(project="faults", id="fuzz", dir=tempfile.mkdtemp(), sinks="csv", alerts=False, config={"a": 1})
    for step in range(3):
        with run.span("step", tags={"a": 1}):
            run.log({"loss": float("nan") if step else 0.5, "big": 2**70, "ok": True}, step=step)
    run.eval({"loss": 0.5})
    run.event("gpu", id=0, power=350.5, pools=[{"name": "x", "used": 1}])
    run.table("samples", [{"a": 1}])
    run.log({"h": chiplog.Histogram([1, 2]), "m": chiplog.Matrix([[1, 2]]), "t": "text"})
    run.alert("spike")
    run.finish()
    return run.dir


if __name__ == "__main__":
    RUN = real_run()
    JOURNAL = RUN / layout.JOURNAL / SEGMENT.filename
    compaction.compact(RUN, SEGMENT)
    seeds(Path(sys.argv[1]))
    for path in (RUN / layout.PARTS).iterdir():
        path.unlink()
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
