"""Runs to look at: a rich one of everything, written straight as journals from a seed."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from chiplog.core import records
from chiplog.store import layout, manifest
from chiplog.store.journal import lines
from chiplog.store.layout import Segment

BEGAN = 1_760_000_000_000_000_000  # wall-clock nanoseconds


class Journal:
    """One rank's journal of a run, written without a `Run`."""

    def __init__(self, run: Path, *, rank: int = 0, attempt: int = 1, began: int = BEGAN, world: int = 1) -> None:
        self._path = run / layout.JOURNAL / Segment(rank, attempt, 0).filename
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lines: list[bytes] = []
        self._seq, self._time = 0, began
        self.add(
            records.Attempt, attempt=attempt, launch=f"launch-{attempt}", rank=rank, world=world, host="elsewhere",
            pid=1, monotonic=0, durability="process", version="0.1.0",
        )  # fmt: skip

    def add(self, kind: type[records.Record], after: float = 0.0, **fields: Any) -> None:
        self._time += int(after * 1e9)
        self._lines.append(lines.line_of(kind(seq=self._seq, time=self._time, **fields)))
        self._seq += 1

    def step(self, step: int, after: float = 0.5, **metrics: Any) -> None:
        self.add(
            records.Step, after, step=step, metrics={name.replace("__", "/"): value for name, value in metrics.items()}
        )

    def finish(self, state: str = "finished") -> None:
        self.add(records.Finish, state=state)
        self.write()

    def write(self) -> None:
        self._path.write_bytes(b"".join(self._lines))


def make_run(root: Path, project: str, id: str, **about: Any) -> Path:
    run = root / project / id
    run.mkdir(parents=True)
    manifest.save(run, manifest.Manifest(project=project, id=id, created=BEGAN, **{"name": id, **about}))
    return run


def simple(root: Path, id: str, *, project: str = "tiny-lm", steps: int = 200, lr: float = 3e-4, **about: Any) -> Path:
    """A run with a loss."""
    run = make_run(root, project, id, config={"lr": lr, "model": {"dim": 64}}, **about)
    journal = Journal(run)
    noise = random.Random(id)
    for step in range(steps):
        loss = 4 / (1 + step * lr * 100) + noise.uniform(0, 0.2)
        journal.step(step, train__loss=loss, train__lr=lr, train__tokens=4096)
    journal.add(records.Eval, step=steps - 1, metrics={"loss": 1.5 + lr})
    journal.finish()
    return run


def rich(root: Path) -> Path:
    """A run that has everything there is to show, with two attempts and four ranks."""
    run = make_run(
        root, "tiny-lm", "rich", name="everything at once", tags=("baseline", "moe"),
        config={"lr": 3e-4, "model": {"dim": 512, "layers": 8, "experts": 16}, "seed": 1},
        environment={"host": "node-17", "python": "3.12.1", "command": ["train.py", "--lr", "3e-4"],
                     "git": {"commit": "0123abcd", "branch": "main", "dirty": True}, "packages": {"torch": "2.13.0"}},
    )  # fmt: skip
    chance = random.Random(7)
    for attempt, (first, last) in enumerate([(0, 300), (250, 600)], start=1):
        for rank in range(4):
            journal = Journal(run, rank=rank, attempt=attempt, began=BEGAN + (attempt - 1) * 10**12, world=4)
            for step in range(first, last):
                slow = 1.4 if rank == 2 and step > 200 else 1.0
                _step(journal, chance, step, rank, slow)
            journal.finish("failed" if attempt == 1 else "finished")
    (run / layout.FILES / "media").mkdir(parents=True)
    (run / layout.FILES / "report.md").write_text("# Report\n\nThe loss **fell**.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    return run


def _step(journal: Journal, chance: random.Random, step: int, rank: int, slow: float) -> None:
    time = 0.4 * slow + chance.uniform(0, 0.05)
    loss = 6 / (1 + step / 60) ** 0.5 + chance.uniform(-0.1, 0.1) + (4 if step == 410 else 0)
    metrics: dict[str, Any] = {"train__loss": loss, "train__step_time_sec": time}
    if rank == 0:
        metrics |= {
            "train__grad_norm": float("nan") if step in (350, 351) else chance.uniform(0.5, 1.5),
            "train__lr": 3e-4 * min(1, step / 50), "train__tokens": 16384, "train__mfu": 0.38 + chance.uniform(0, 0.04),
            "goodput__productive": 0.91, "goodput__checkpoint": 0.05, "goodput__restart": 0.04,
        }  # fmt: skip
    journal.step(step, time, **metrics)
    if rank:
        return
    if step % 10 == 0:
        gpus = [
            {"id": gpu, "power": 1000 * (600 + 40 * gpu + chance.uniform(0, 30)), "temperature": 60 + gpu}
            for gpu in range(2)
        ]
        for gpu in gpus:
            journal.add(records.Event, name="gpu", data=gpu, step=step)
    if step % 50 == 0:
        journal.add(records.Eval, step=step, metrics={"loss": loss + 0.1, "accuracy": min(0.9, step / 600)})
        values = [
            [chance.uniform(0.5, 1.5) * (3 if expert == layer else 1) for expert in range(16)] for layer in range(8)
        ]
        journal.add(records.MatrixRecord, name="moe/tokens_per_expert", values=values, step=step)  # type: ignore[arg-type]
        rows = [
            {
                "prompt": f"Question {step}-{n}: what is {n} + {n}?",
                "completion": f"The answer is {2 * n}.",
                "reward": n / 4,
            }
            for n in range(4)
        ]
        journal.add(records.Table, name="completions", rows=rows, step=step)
        names = ["step", "forward", "backward", "optimizer"]
        _spans(journal, names, step)
    if step == 410:
        journal.add(
            records.Alert, title="train/loss is far above its past", level="warn", rule="spike", step=step,
            text="the newest value lies 12 deviations above the median", evidence={"name": "train/loss", "step": step, "value": loss, "limit": 3.2, "past": [2.1, 2.2, 2.1, 2.15]},
        )  # fmt: skip
    if step == 350:
        evidence: dict[str, records.Plain] = {"name": "train/grad_norm", "value": math.nan}
        journal.add(
            records.Alert, title="train/grad_norm is nan", level="error", rule="nonfinite", step=step, evidence=evidence
        )
        journal.add(records.File, name="report", path="files/report.md", media="text/markdown", size=70, step=step)


def _spans(journal: Journal, names: list[str], step: int) -> None:
    base = BEGAN + step * 10**9
    journal.add(
        records.SpansRecord, names=names, threads=["main"], name=[0, 1, 2, 3], thread=[0] * 4, id=[step * 4 + n for n in range(1, 5)],
        parent=[0, *[step * 4 + 1] * 3], start=[base, base, base + 10**8, base + 3 * 10**8],
        duration=[4 * 10**8, 10**8, 2 * 10**8, 5 * 10**7], step=[step] * 4,
    )  # fmt: skip


def traced(root: Path) -> Path:
    """A run of two steps whose spans lie on a thread, a device and the queue before it; one of them fails."""
    run = make_run(root, "tiny-lm", "traced")
    journal = Journal(run)
    ms = 10**6
    for step in range(2):
        journal.step(step, train__loss=1.0)
        base, first = BEGAN + step * 10**9, 10 * step + 1
        rows = [  # name, timeline, id, parent, start, duration
            ("step", 0, first, 0, 0, 400), ("forward", 0, first + 1, first, 0, 100), ("attention", 0, first + 2, first + 1, 20, 50),
            ("backward", 0, first + 3, first, 110, 200), ("save", 0, first + 4, first, 320, 70),
            ("kernels", 1, first + 5, 0, 60, 280), ("kernels", 2, first + 6, 0, 10, 50),
        ]  # fmt: skip
        names = sorted({row[0] for row in rows})
        journal.add(
            records.SpansRecord, names=names, threads=["main", "tpu0", "tpu0_queue"], name=[names.index(row[0]) for row in rows],
            thread=[row[1] for row in rows], id=[row[2] for row in rows], parent=[row[3] for row in rows],
            start=[base + row[4] * ms for row in rows], duration=[row[5] * ms for row in rows], step=[step] * len(rows),
            kinds={"tpu0": "device", "tpu0_queue": "queue"}, tags={str(first + 1): {"layers": 8, "note": "<b>bold</b>"}},
            failed=[first + 4], errors={str(first + 4): "OSError: disk full"},
        )  # fmt: skip
    journal.finish()
    return run


def damage(run: Path) -> None:
    """Flip bits in the middle of a journal."""
    path = next((run / layout.JOURNAL).iterdir())
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 2, len(data) // 2 + 200):
        data[at] ^= 0x55
    path.write_bytes(bytes(data))
