"""Runs that are well sealed and hostile: every line has its CRC, and what it says is chosen to hurt a reader.

`python -m tests.faults.hostile_runs SECONDS [SEED]` makes such runs and lets every verb, sink and route of the page read
them, until time is up or something is wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from chiplog.cli import main
from chiplog.core import messages
from chiplog.core.identity import Identity
from chiplog.store.journal import lines
from tests.faults.hostile_questions import SLOW, verbs
from tests.support.memory import peak, reset_peak

BAD_TEXT = [
    "",
    "loss",
    "train/loss",
    "val/loss",
    "step",
    "\x1b]0;owned\x07\x1b[2J",
    "\x9b31m\x85",
    "\u202egnp.exe\u2066",
    "a\nb\rc\td\0e",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](http://evil.example/x.png)",
    "[click](javascript:alert(1))",
    "http://evil.example/",
    "www.evil.example",
    "me@evil.example",
    "see @evil, evil/x#1 and ftp://evil.example",
    "</script></style></svg>",
    "`|*_#]]>&lt;",
    "../../../etc/passwd",
    "/etc/passwd",
    "%s%n{0}{x}",
    "=cmd|' /C calc'!A0",
    "\ud7ff\ufffe\U0010ffff",
    "x" * 5000,
    "nan",
    "Infinity",
    "gpu",
    "moe/load",
    "train/step_time_sec",
]
BAD_NUMBERS: list[Any] = [
    0, 1, -1, 3, 10, 0.5, -0.0, 1e-320, 1e308, -1e308, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**308,
    10**309, 10**400, -(10**400), "nan", "inf", "-inf", True, False,
]  # fmt: skip
FAR = [0, 1, -1, 2**31, 2**62, 2**63 - 1, -(2**63), 1_800_000_000_000_000_000]
NAMES = [
    "train/loss",
    "loss",
    "train/step_time_sec",
    "train/tokens_per_sec",
    "train/mfu",
    "gpu/util",
    "moe/load",
    "eta",
]


class Maker:
    """Makes hostile runs, the same ones for a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def make(self, root: Path) -> Path:
        """One run directory under a directory of runs."""
        pick = self._random
        run = root / pick.choice(["p", "p2"]) / f"run-{pick.randrange(10**6)}"
        (run / "journal").mkdir(parents=True, exist_ok=True)
        (run / "files").mkdir(exist_ok=True)
        (run / "files" / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>")
        if pick.random() < 0.9:
            (run / "run.json").write_bytes(_encode(self._manifest(run)))
        for number in range(pick.choice([1, 1, 2])):
            rank = pick.choice([0, 0, 0, 1, 999_999_999])
            attempt = pick.choice([1, 1, 2, 999_999_999])
            path = run / "journal" / f"r{rank:05d}-a{attempt:02d}-{number:04d}.jsonl"
            path.write_bytes(b"".join(self._line(at) for at in range(pick.choice([0, 1, 5, 40]))))
            if pick.random() < 0.4:
                with path.open("ab") as file:
                    file.writelines(_sealed(100 + at, one) for at, one in enumerate(pick.choice(AMPLIFYING)()))
            if pick.random() < 0.15:
                self._pack(path)
        (run / "cursors").mkdir(exist_ok=True)
        for name in ("wandb", "csv"):
            (run / "cursors" / f"{name}.json").write_bytes(lines.sealed(_encode(self._cursor())))
            (run / "cursors" / f"{name}.lease").write_bytes(_encode(self._plain(1)))
        (run / "relay").mkdir(exist_ok=True)
        (run / "relay" / "r00000-a01.json").write_bytes(_encode({"pid": self._number(), "services": self._plain(2)}))
        return run

    def _pack(self, path: Path) -> None:
        """Compress a journal, perhaps with much more in it than there is room for."""
        with pa.CompressedOutputStream(str(path.with_name(f"{path.name}.zst")), "zstd") as file:
            file.write(path.read_bytes())
            if self._random.random() < 0.5:
                filler = self._random.choice([b"x\n", b"\n", b"\0", b"x\n\0\n", self._line(5)])
                for _ in range(20):
                    file.write(filler * ((1 << 20) // len(filler)))
        path.unlink()

    def _manifest(self, run: Path) -> dict[str, Any]:
        good = {"project": run.parent.name, "id": run.name, "name": self._text(), "created": 1, "config": {}}
        for key in ("project", "id", "name", "created", "tags", "config", "environment", "rank", "format", "summary"):
            if self._random.random() < 0.3:
                good[key] = self._random.choice([self._plain(3), self._text(), self._number(), {}, [self._text()]])
        return good

    def _cursor(self) -> dict[str, Any]:
        where = [self._random.choice([0, 1, -1, 2**62, 10**30]) for _ in range(3)]
        positions = {self._random.choice(["r00000-a01", "r00000x-a01", "r" + "9" * 6000, self._text(), "r1"]): where}
        if self._random.random() < 0.2:
            positions = {f"r{rank:05d}-a01": [0, 0, -1] for rank in range(5000)}
        return {
            "positions": positions,
            "state": self._plain(2) if self._random.random() < 0.5 else {"tables": {"t": {"file": "../../x.csv"}}},
            "service": "wandb",
            "options": {"settings": {"base_url": "http://192.0.2.1/"}},
            "url": self._text(),
        }

    def _line(self, at: int) -> bytes:
        kind = self._random.choice(list(_KINDS))
        record = {"log": kind, "seq": self._seq(at), "time": self._far(), **_KINDS[kind](self)}
        if self._random.random() < 0.1:
            record.pop(self._random.choice(list(record)))
        return lines.sealed(_encode(record)) + b"\n"

    def _seq(self, at: int) -> int:
        return at if self._random.random() < 0.9 else self._far()

    def _far(self) -> int:
        sane = 1_800_000_000_000_000_000 + self._random.randrange(10**12)
        return sane if self._random.random() < 0.7 else self._random.choice(FAR)

    def _text(self) -> str:
        return self._random.choice(BAD_TEXT if self._random.random() < 0.6 else NAMES)

    def _number(self) -> Any:
        return self._random.choice(BAD_NUMBERS) if self._random.random() < 0.5 else self._random.randrange(100)

    def _few(self, make: Callable[[], Any], most: int = 6) -> list[Any]:
        return [make() for _ in range(self._random.randrange(most))]

    def _metrics(self) -> dict[str, Any]:
        return {self._text(): self._number() for _ in range(self._random.randrange(1, 5))}

    def _plain(self, deep: int) -> Any:
        kind = self._random.randrange(6)
        if deep <= 0 or kind < 3:
            return self._random.choice([self._text(), self._number(), None])
        if kind == 3:
            return self._few(lambda: self._plain(deep - 1))
        return {self._text(): self._plain(deep - 1) for _ in range(3)}

    def _object(self) -> dict[str, Any]:
        return {self._text(): self._plain(2) for _ in range(3)}

    def _spans(self) -> dict[str, Any]:
        count = self._random.randrange(5)
        index = lambda: self._random.choice([0, 0, 1, 2, -1, 2**31, 2**63 - 1])  # noqa: E731
        columns = {key: [index() for _ in range(count)] for key in ("name", "thread", "id", "parent")}
        times = {key: [self._far() for _ in range(count)] for key in ("start", "duration")}
        if self._random.random() < 0.5:
            columns = {key: [at % 2 for at in range(count)] for key in columns} | {"id": list(range(1, count + 1))}
        return {
            "names": [self._text(), self._text()],
            "threads": [self._text(), "main"],
            **columns,
            **times,
            "step": [self._random.choice([None, self._number()]) for _ in range(count)],
            "tags": {"1": self._object()},
            "failed": [index()],
            "errors": {"1": self._text()},
            "launched": [index()],
            "kinds": {"main": self._text()},
        }

    def _attempt(self) -> dict[str, Any]:
        from chiplog.store.runs import liveness

        here = self._random.random() < 0.5
        return {
            "attempt": self._number(),
            "launch": self._text(),
            "rank": self._number(),
            "world": self._number(),
            "host": liveness.hostname() if here else self._text(),
            "pid": self._random.choice([0, -1, 1, 2**22, 2**31, 2**63, 10**400]),
            "monotonic": self._far(),
            "durability": self._text(),
            "version": self._text(),
            "boot": "",
            "born": self._number(),
        }

    def _event(self) -> dict[str, Any]:
        names = (
            "gpu",
            "cpu",
            "config",
            "summary",
            "hardware",
            "compile",
            "environment",
            "goodput",
            "statistics",
            "flops",
        )
        name = self._random.choice([*names, self._text()])
        return {"name": name, "data": self._object() | self._metrics(), "step": self._number()}


_KINDS: dict[str, Callable[[Maker], dict[str, Any]]] = {
    "attempt": Maker._attempt,
    "step": lambda it: {"step": it._number(), "metrics": it._metrics()},
    "eval": lambda it: {"step": it._number(), "metrics": it._metrics(), "across": True},
    "event": Maker._event,
    "table": lambda it: {"name": it._text(), "rows": it._few(it._object), "step": it._number()},
    "histogram": lambda it: {"name": it._text(), "edges": it._few(it._number), "counts": it._few(it._number)},
    "matrix": lambda it: {
        "name": it._text(), "values": it._few(lambda: it._few(it._number)), "step": it._random.choice([None, it._number()]),
    },
    "text": lambda it: {"name": it._text(), "text": it._text(), "step": it._number()},
    "file": lambda it: {
        "name": it._text(), "path": it._random.choice(["/etc/hostname", "../../../etc/hostname", "files/picture.svg", it._text()]),
        "media": it._random.choice(["image/png", "image/svg+xml", "text/html", it._text()]), "caption": it._text(),
        "size": it._number(), "step": it._number(),
    },
    "spans": Maker._spans,
    "console": lambda it: {"lines": it._few(it._text), "times": it._few(it._far), "stderr": [it._number()], "open": [0]},
    "alert": lambda it: {
        "title": it._text(), "level": it._text(), "text": it._text(), "rule": it._text(), "step": it._number(),
        "evidence": it._object(),
    },
    "clock": lambda it: {"wall": it._far(), "jump": it._far()},
    "finish": lambda it: {"state": it._random.choice(["finished", it._text()]), "reason": it._text(), "missing": it._number()},
    "new-kind": lambda it: it._object(),
}  # fmt: skip


def _beside(count: int, inside: bool) -> dict[str, Any]:
    """Spans that all overlap, or contain each other."""
    every, now = range(count), 1_800_000_000_000_000_000
    return {
        "log": "spans", "names": ["a"], "threads": ["main"], "name": [0] * count, "thread": [0] * count,
        "id": [at + 1 for at in every], "parent": [at * inside for at in every], "start": [now + at for at in every],
        "duration": [10**9 - 2 * at * inside for at in every], "step": [1] * count,
    }  # fmt: skip


_LONG = "n" * 20_000

# Records that are much larger once they are read, drawn or written; each of them is small.
AMPLIFYING: list[Callable[[], list[dict[str, Any]]]] = [
    lambda: [{"log": "event", "name": _LONG, "data": {f"k{at}": at for at in range(2000)}}],
    lambda: [{"log": "event", "name": "e", "data": {_LONG: [[1], {"a": 1}] * 1000}}],
    lambda: [{"log": "matrix", "name": "m", "values": [*([[]] * 5000), [1] * 5000], "step": 1}],
    lambda: [{"log": "matrix", "name": "m", "values": [[1.0] * (1 + 500 * (at == 3))], "step": at} for at in range(200)],
    lambda: [_beside(2000, inside=False)],
    lambda: [_beside(2000, inside=True)],
    lambda: [{"log": "table", "name": "t", "rows": [{f"k{at}": at} for at in range(3000)], "step": 1}],
    lambda: [{"log": "step", "step": at, "metrics": {f"k{at}": 1.0}} for at in range(300)],
    lambda: [{"log": "step", "step": at, "metrics": {f"{_LONG}{at}": 1.0}} for at in range(20)],
    lambda: [{"log": "event", "name": "config", "data": {f"c{at}": _LONG * 10 for at in range(10)}}],
    lambda: [{"log": "text", "name": f"t{at}", "text": _LONG * 10} for at in range(10)],
    lambda: [{"log": "alert", "title": f"{_LONG}{at}", "text": _LONG * 10} for at in range(10)],
]  # fmt: skip


def _sealed(at: int, record: dict[str, Any]) -> bytes:
    head = {"log": record["log"], "seq": at, "time": 1_800_000_000_000_000_000 + at}
    return lines.sealed(_encode({**head, **record})) + b"\n"


def _encode(data: Any) -> bytes:
    """JSON with integers of any length, which msgspec does not write."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


# -- what reads them ---------------------------------------------------------------------------------------------------

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
LOCAL = ("console", "csv", "jsonl", "json", "tensorboard", "memory", "perfetto")


class Findings(list[str]):
    """What went wrong, and how much was read."""

    commands = 0
    requests = 0
    sinks = 0


def attack(run: Path, out: Path, findings: Findings, *, seed: int) -> None:
    """Let everything read one run."""
    from tests.faults import hostile_readers

    out.mkdir(exist_ok=True)
    before = elsewhere(run, out)
    for words in verbs(run, out):
        if seed % 6 and set(SLOW) & set(words):
            continue
        findings.commands += 1
        shown = " ".join(words[2:])[:200]
        with bounded(findings, f"seed {seed}: chiplog {shown}"):
            printed, error = command(words)
        if error:
            findings.append(f"seed {seed}: chiplog {shown}: {error}")
        if "usage: chiplog" in printed:
            findings.append(f"chiplog {shown}: is not a command")
        if bad := CONTROL.search(printed):
            findings.append(
                f"seed {seed}: chiplog {shown}: prints {bad[0]!r} in {printed[max(0, bad.start() - 40) :][:80]!r}"
            )
    hostile_readers.pages(run, findings, seed)
    hostile_readers.sinks(run, findings, seed)
    hostile_readers.written(out, findings, seed)
    if new := elsewhere(run, out) - before:
        findings.append(f"seed {seed}: written outside of the run and the output: {sorted(new)[:5]}")


def elsewhere(run: Path, out: Path) -> set[str]:
    """What is next to a run and the output, and must stay as it is."""
    found = set()
    for path in out.parent.rglob("*"):
        if path.is_file() and not path.is_relative_to(out) and not path.is_relative_to(run):
            found.add(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}")
    return found


SECONDS = 60.0  # of processor that one command, request or sink may take, on a busy machine
MEMORY = 1024  # MiB that it may need in addition


@contextlib.contextmanager
def bounded(findings: Findings, what: str) -> Iterator[None]:
    """Note what takes long, or much memory."""
    reset_peak()
    before, began = peak(), time.process_time()
    yield
    if (seconds := time.process_time() - began) > SECONDS:
        findings.append(f"{what}: takes {seconds:.0f} s")
    if (memory := peak() - before) > MEMORY:
        findings.append(f"{what}: needs {memory} MiB")


def command(words: list[str]) -> tuple[str, str]:
    """What a command prints, and the traceback if it raises."""
    messages.forget()
    stdout, stderr = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace"), io.StringIO()
    error = ""
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            code = main(words)
            if code not in (0, 1, 2):
                error = f"exit code {code}"
        except SystemExit as left:
            error = "" if left.code in (0, 1, 2, None) else f"SystemExit {left.code!r}"
        except BaseException:
            error = last_lines()
    stdout.flush()
    printed = stdout.buffer.getvalue().decode() + stderr.getvalue()
    if "Traceback (most recent call last)" in printed and "cat" not in words:
        error = error or f"prints a traceback: {printed[-300:]}"
    return printed, error


def last_lines() -> str:
    """The end of the current traceback."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-4:]))
    return f"{sys.exc_info()[0].__name__}: {str(sys.exc_info()[1])[:150]!r} at {where}"  # type: ignore[union-attr]


def fuzz(seconds: float, first: int = 0, most: int = 10**9) -> Findings:
    """Make and read runs until time is up."""
    findings = Findings()
    until, seed = time.monotonic() + seconds, first
    runs = 0
    while time.monotonic() < until and runs < most:
        with tempfile.TemporaryDirectory(prefix="chiplog-hostile-") as folder:
            root = Path(folder, "runs")
            run = Maker(seed).make(root)
            if seed % 3 == 0:
                run = with_part(root, seed)
            attack(run, Path(folder, "out"), findings, seed=seed)
        seed, runs = seed + 1, runs + 1
    findings.runs = runs  # type: ignore[attr-defined]
    return findings


def with_part(root: Path, seed: int) -> Path:
    """A run of ours with a hostile part, beside the others."""
    import chiplog
    from tests.faults import hostile_parts

    with chiplog.init("p", dir=root, id=f"part-{seed}", sinks="none", compact=False) as run:
        for step in range(6):
            with run.span("step", {"a": 1}):
                run.log({"train/loss": 1 / (step + 1), "big": 2**60 + 1, "flag": True}, step=step)
        run.table("samples", [{"a": 1, "b": "x"}])
        run.alert("hot", text="very")
        run.eval({"accuracy": 0.5}, step=5)
    hostile_parts.damage(run.dir, random.Random(seed))
    return run.dir


def identity(run: Path) -> Identity:
    return Identity("p", "r", run, "n", "launch", (), 0, attempt=1, config={}, cwd=str(run.parent), script="")


if __name__ == "__main__":
    found = fuzz(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for line in found:
        print(line)
    print(
        f"{found.runs} runs, {found.commands} commands, {found.requests} requests, {found.sinks} sinks, "  # type: ignore[attr-defined]
        f"{len(found)} findings, {peak()} MiB"
    )
