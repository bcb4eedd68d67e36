"""Which rank keeps a run: rank 0, the ones that were named, or the first that logs where rank 0 does not."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core import records
from chiplog.runtime.ranks import run_claims, run_owner
from chiplog.runtime.ranks.run_claims import SharedClaims
from chiplog.runtime.ranks.run_owner import Successor
from chiplog.store import layout
from chiplog.store.runs import state
from tests.support.device_values import Faraway
from tests.support.launchers import CLEAN, start
from tests.support.ports import free_port
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timeout(180)
SCRIPT = str(Path(__file__).parent / "keepers.py")


@pytest.fixture(scope="module", params=[2, 4])
def launched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """What torchrun's ranks have left."""
    folder = tmp_path_factory.mktemp("keepers")
    start([sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={request.param}",
           f"--master-port={free_port()}", SCRIPT, str(folder)])  # fmt: skip
    return folder, request.param


def told(folder: Path, world: int, name: str) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{rank}.json").read_text())[name] for rank in range(world)]


def kept(path: Path) -> dict[int, list[float]]:
    """The steps of each rank that has a journal, without statistics across ranks."""
    found: dict[int, list[float]] = {segment.rank: [] for segment in layout.segments(path)}
    for rank, steps in found.items():
        for record in chiplog.read(path).records("step", rank=rank):
            assert isinstance(record, records.Step)
            if not record.across:
                steps.append(record.step)
    return found


def test_rank_0_keeps_what_all_log(launched: tuple[Path, int]) -> None:
    """Nobody else writes a byte."""
    folder, world = launched
    ranks = told(folder, world, "everyone")
    assert all(rank["complete"] for rank in ranks) and len({rank["dir"] for rank in ranks}) == 1
    assert kept(Path(ranks[0]["dir"])) == {0: list(range(20))}


@pytest.mark.parametrize(("name", "steps"), [("at-the-end", 10), ("under-way", 30)])
def test_the_rank_that_logs_keeps_the_run_in_rank_0s_place(launched: tuple[Path, int], name: str, steps: int) -> None:
    """In the same run, with its sinks, which rank 0 has opened before; no statistic of one rank is beside it."""
    folder, world = launched
    ranks = told(folder, world, name)
    assert all(rank["complete"] for rank in ranks) and len({rank["dir"] for rank in ranks}) == 1
    path = Path(ranks[0]["dir"])
    assert kept(path) == {0: [], world - 1: list(range(steps))}
    stored = chiplog.read(path)
    assert state.last_values(path) == {"loss": world - 1.0, "lr": 0.1, "step": steps - 1}
    assert stored.names() == ["loss", "lr"] and stored.series("loss").values.tolist() == [world - 1.0] * steps
    rows = (path / "files" / "metrics.csv").read_text().splitlines()
    assert len(rows) == steps + 1 and rows[0].endswith("loss,lr")


@pytest.mark.parametrize("name", ["named", "numbered"])
def test_a_rank_that_was_named_keeps_the_run_from_the_start(launched: tuple[Path, int], name: str) -> None:
    """As the last one, or by its number: all know which it is, and it has the statistics and the sinks."""
    folder, world = launched
    ranks = told(folder, world, name)
    assert all(rank["complete"] for rank in ranks) and len({rank["dir"] for rank in ranks}) == 1
    path = Path(ranks[0]["dir"])
    assert kept(path) == {world - 1 if name == "named" else 1: list(range(10))}
    mean = chiplog.read(path).series("loss/mean")
    assert mean.steps.tolist() == list(range(10)) and set(mean.values) == {(world - 1) / 2}
    assert (path / "files" / "metrics.csv").exists() and (path / layout.IDENTITY).exists()


def test_rows_of_a_rank_that_was_not_named_are_not_lost_in_silence(launched: tuple[Path, int]) -> None:
    """Where the rank that was named logs nothing, there are no statistics of them either: `finish` is not true."""
    folder, world = launched
    ranks = told(folder, world, "unkept")
    assert [rank["complete"] for rank in ranks] == [False] + [True] * (world - 1)
    assert kept(Path(ranks[0]["dir"])) == {1: []}


def test_several_may_be_named(launched: tuple[Path, int]) -> None:
    """Each has its journal in one run, the first of them the sinks."""
    folder, world = launched
    ranks = told(folder, world, "several")
    assert len({rank["dir"] for rank in ranks}) == 1
    path = Path(ranks[0]["dir"])
    assert kept(path) == {rank: list(range(10)) for rank in {1, world - 1}}
    assert len((path / "files" / "metrics.csv").read_text().splitlines()) > 10


PLAIN = """
import sys, time, chiplog
from pathlib import Path
rank, who, told = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
run = chiplog.init("p", sinks="console,csv,wandb", dir=told / "runs", reduce=False)
if str(rank) in who:
    run.log({"train/odd": 1.0}); run.log({"y": chiplog.Image(b"\\x89PNG" + b"0" * 60)}) if rank else None
(told / f"ready{rank}").touch()
until = time.monotonic() + 60
while not (told / "go").exists() and time.monotonic() < until:
    time.sleep(0.01)
assert run.finish()
"""


def play(folder: Path, began: list[int], who: str, *, world: int = 2) -> list[str]:
    """Processes that know their rank from the environment, and nothing of each other; what each has said."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PLAIN, str(rank), who, str(folder)],
            env={**CLEAN, "RANK": str(rank), "WORLD_SIZE": str(world), "WANDB_MODE": "offline"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in began
    ]
    until = time.monotonic() + 60
    while not all((folder / f"ready{rank}").exists() for rank in began) and time.monotonic() < until:
        time.sleep(0.01)
    (folder / "go").touch()
    said = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), said
    return said


def runs(folder: Path) -> list[Path]:
    return list(layout.find_runs(folder / "runs"))


def test_without_a_group_rank_0_keeps_what_all_log(tmp_path: Path) -> None:
    """The others see it in a file among the runs."""
    said = play(tmp_path, [0, 1], "01")
    (path,) = runs(tmp_path)
    assert kept(path) == {0: [0]} and said[1] == ""
    assert len([file for file in path.parent.iterdir() if file.name.startswith(".")]) == 1


@pytest.mark.parametrize("began", [[1], [0, 1]])
def test_without_a_group_a_rank_that_logs_alone_has_a_run(began: list[int], tmp_path: Path) -> None:
    """Whether rank 0 has begun one or not: with what it logged, its sinks, and one line that says so."""
    said = play(tmp_path, began, "1")[-1]
    (path,) = [path for path in runs(tmp_path) if 1 in kept(path)]
    assert kept(path) == {1: [0]} and "== 1 step in" in said
    assert said.count("rank 1 logs and rank 0 does not, so rank 1 records the run") == 1 and "init(ranks=1)" in said
    assert "train/odd" in (path / "files" / "metrics.csv").read_text()
    (sent,) = path.rglob("*.wandb")
    assert path.name.encode() in sent.read_bytes() and b"train/odd" in sent.read_bytes()
    stored = chiplog.read(path)
    assert (stored.state, stored.missing, stored.attempts[0].attempt) == ("finished", {}, 1)
    assert [record.path for record in stored.records("file")] == ["files/media/y.png"]  # type: ignore[union-attr]


def test_what_cannot_be_kept_is_counted(
    second: chiplog.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`finish` is not true then, and says how many records there were."""
    (tmp_path / "p").mkdir()
    for _ in range(3):
        second.log({"x": 1.0})
    (tmp_path / "p" / second.id).write_text("in the way")
    done = second.finish()
    assert not done and done.lost == 3
    assert "the run cannot be kept" in capsys.readouterr().err


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> chiplog.Run:
    """A run on rank 1 of two, which have no way to each other but the file."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("chiplog.runtime.ranks.run_owner.AT_END", 0.0)
    monkeypatch.setattr("chiplog.runtime.ranks.run_owner.POLL", 0.01)
    return chiplog.init("p", sinks="none", dir=tmp_path, reduce=False)


def claim(run: chiplog.Run) -> None:
    """As rank 0 does with its first row."""
    environ = {"RANK": "0", "WORLD_SIZE": "2"}
    assert SharedClaims("p//" + str(run_claims._runs["p/"]), run.dir.parent, environ).claim(0) == 0


def test_a_rank_that_is_let_go_costs_nothing_more(second: chiplog.Run, tmp_path: Path) -> None:
    """No thread, no file, no wait; and what was on a device, or came by itself, keeps nobody waiting."""
    claim(second)
    second.log({"x": Faraway(1.0)})
    wait_for(lambda: second.inert, 10, "rank 0 to be seen")
    with second.span("work"):
        second.log({"x": 2.0})
    wait_for(lambda: not any("keep" in one.name for one in threading.enumerate()), 10, "its threads to end")
    assert second.finish()
    assert [path.name for path in (tmp_path / "p").iterdir()] == [boards(tmp_path)]


def boards(folder: Path) -> str:
    (found,) = (folder / "p").glob(".keeper-*")
    return found.name


def test_what_nobody_logs_is_not_held_without_end(second: chiplog.Run, tmp_path: Path) -> None:
    """Events alone make no run, however many there are."""
    for number in range(5000):
        second.event("tick", number=number)
    assert second.health()["journal"]["waiting"] <= 1001
    assert second.finish() and list(tmp_path.iterdir()) == []


def test_values_on_a_device_make_a_run_too(second: chiplog.Run) -> None:
    """Where rank 0 logs nothing."""
    second.log({"x": Faraway(3.0)})
    assert second.finish()
    assert chiplog.read(second.dir).series("x").values.tolist() == [3.0]


def test_claims_that_have_gone_are_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it polls, and at the end; torch prints a page each time. Then the rank keeps the run."""
    asked, kept_by = [], []

    class Gone:
        def keeper(self) -> int | None:
            asked.append("keeper")
            raise ConnectionError("the store has gone")

        def claim(self, rank: int) -> int:
            asked.append("claim")
            raise ConnectionError("the store has gone")

    monkeypatch.setattr(run_owner, "AT_END", 0.3)
    monkeypatch.setattr(run_owner, "POLL", 0.01)
    successor: Successor

    def keep() -> None:
        kept_by.append(1)
        successor.pages.release()

    successor = Successor(1, Gone(), keep, lambda _: None)
    successor.pages.append(records.Step(0, 0, 0, {"loss": 1.0}))
    successor.decide()
    assert kept_by == [1] and asked == ["keeper", "claim"]
