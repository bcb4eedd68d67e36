"""Makes the golden run of this version: `python tests/data/golden/make.py`, once for each release.

The run is written by the library, killed in its second attempt, compacted and damaged. Then the facts of the machine it
was made on are taken out of its `attempt` and `environment` records, and the lines sealed again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import chiplog
from chiplog.core import records
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.parts import compaction
from chiplog.version import VERSION

HERE = Path(__file__).parent

CODE = """
import os, sys
import chiplog

turn, root = int(sys.argv[1]), sys.argv[2]
run = chiplog.init(project="golden", id="run", name="The golden run", tags=["old", "ünï"], dir=root, ranks="all", capture=True,
                   config={"lr": 3e-4, "model": {"layers": 12}, "path": None}, sinks="none", compact=False)
first = 0 if turn == 1 else 6
for step in range(first, first + 10):
    with run.span("step", tags={"micro": step}):
        with run.span("forward"):
            run.log({"train/loss": 4.0 / (step + 1) + turn, "train/tokens": step * 16384}, step=step)
if run.identity.rank == 0:
    run.log({"nan": float("nan"), "up": float("inf"), "down": float("-inf"), "zero": -0.0, "tiny": 5e-324,
             "third": 1 / 3, "big": 2**70, "odd": 2**53 + 1, "yes": True, "no": False, "k\\n\\"ü\\0": 1,
             "lone \\ud800": 2, "__proto__": 3}, step=20)
    run.log({"half": 0.5}, step=20.5)
    run.write(chiplog.core.records.Step, step=float("nan"), metrics={"lost": 1.5})  # `log` takes no such step
    run.eval({"loss": 2.5, "tokens": 1048576}, step=20)
    run.event("gpu", id=0, power=350.5, memory={"used": 64.5}, bad=float("nan"))
    run.event("allocator", pools=[{"name": "weights", "device": 1024}, {"name": "cache", "device": 512}])
    run.table("samples", [{"prompt": "Once", "tokens": 12}, {"prompt": "upon", "tokens": None}])
    run.log({"grad": chiplog.Histogram(counts=[3, 1], edges=[0.1, 0.5, 0.9]), "moe/load": chiplog.Matrix([[10, 12], [9, 13]]),
             "sample": chiplog.Text("Once upon a time"), "word": "no number"}, step=21)
    run.log({"plot": chiplog.Image(b"\\x89PNG\\r\\n\\x1a\\n", caption="loss")}, step=21)
    run.alert("loss spike", text="3.1 after 2.3", value=3.1)
    run.config["lr"] = 1e-4
    run.summary["best"] = 2.25
    print("one line", "and one that is open", sep="\\n", end="")
    run.write(chiplog.core.records.Clock, wall=1700000000000000000, jump=3600000000000)
run.flush()
if turn == 2:
    os._exit(9)
run.finish()
"""


def main() -> None:
    target = HERE / VERSION.rpartition(".")[0]
    if target.exists():
        sys.exit(f"{target} is there already: what a release has written is never made again")
    with tempfile.TemporaryDirectory() as folder:
        for turn in (1, 2, 3):
            ranks = (0, 1) if turn == 1 else (0,)
            for rank in ranks:
                environ = {
                    **os.environ,
                    "RANK": str(rank), "WORLD_SIZE": str(len(ranks)), "CHIPLOG_RUN_ID": f"launch-{turn}",
                }  # fmt: skip
                subprocess.run([sys.executable, "-c", CODE, str(turn), folder], env=environ, check=False)
        run = Path(folder) / "golden" / "run"
        for path in (run / layout.JOURNAL).glob("*.jsonl"):
            path.write_bytes(b"".join(map(neutral, path.read_bytes().splitlines(keepends=True))))
        about = json.loads((run / layout.IDENTITY).read_bytes())
        (run / layout.IDENTITY).write_text(json.dumps({**about, "environment": ENVIRONMENT}, indent=2) + "\n")
        damage(run / layout.JOURNAL / "r00000-a03-0000.jsonl")
        (first, second, *_) = layout.segments(run)
        assert compaction.compact(run, first) and compaction.prune(run, first)
        assert compaction.compact(run, second)
        with (run / layout.JOURNAL / second.filename).open("ab") as file:  # a record beyond the part, and a torn one
            line = lines.line_of(records.Step(500, 1_700_000_000_000_000_000, 30, {"train/loss": 1.0}))
            file.write(line + line[:20])
        shutil.copytree(run, target / "run")
    found = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content(target / "run").items()]
    (target / "expected.json").write_text("{\n" + ",\n".join(found) + "\n}\n")


ENVIRONMENT = {"host": "somewhere", "python": "3.11", "command": ["python", "train.py"], "git": {}}


def neutral(line: bytes) -> bytes:
    """A line without the facts of this machine."""
    if line == b"\n":
        return line
    record = json.loads(line)
    if record["log"] == "attempt":
        record.update(host="somewhere", pid=1, boot="00000000-0000-0000-0000-000000000000", born=1)
    elif record["log"] == "event" and record["name"] == "environment":
        record["data"] = ENVIRONMENT
    else:
        return line
    del record["crc"]
    return lines.sealed(json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()) + b"\n"


def damage(path: Path) -> None:
    """A torn line with the next one right behind it, a changed byte, and zeros."""
    found = path.read_bytes().splitlines(keepends=True)
    found[5] = found[5][:40]
    found[8] = found[8].replace(b"train/loss", b"train/lost")
    found[11] = bytes(64) + b"\n"
    path.write_bytes(b"".join(found))


def content(path: Path) -> dict[str, Any]:
    """All there is to know of a run, as JSON says it."""
    for file in (path / layout.JOURNAL).iterdir():
        os.utime(file, (0, 0))  # nobody writes to it any more
    run = chiplog.read(path)
    series = {
        name: [
            [rank, attempt, [say(step) for step in one.steps.tolist()], [say(value) for value in one.exact]]
            for rank in (0, 1)
            for attempt in (None, 1, 2, 3)
            if (attempt is None or name == "train/loss") and len(one := run.series(name, rank=rank, attempt=attempt))
        ]
        for name in sorted(run.names())
    }
    return {
        "name": run.name,
        "tags": list(run.tags),
        "created": run.created,
        "config": run.config,
        "environment": run.environment,
        "summary": {name: say(value) for name, value in sorted(run.summary.items())},
        "attempts": [[one.rank, one.attempt, one.launch, one.state] for one in run.attempts],
        "state": run.state,
        "damage": [list(one) for one in run.damage],
        "missing": run.missing,
        "spans": [[one.name, one.start, one.duration, one.step, one.tags, one.rank, one.failed] for one in run.spans()],
        "series": series,
        "times": run.series("train/loss").times.astype("int64").tolist(),
        "records": [records.fields(record) for record in run.records()],
    }


def say(value: Any) -> Any:
    """A number as text that tells it apart from every other: 1 and 1.0 are the same, 0.0 and -0.0 are not."""
    if isinstance(value, (bool, str)) or value is None:
        return value
    large = value - value == 0 and abs(value) >= 2**53
    return str(int(value)) if large else float(value).hex()


if __name__ == "__main__":
    main()
