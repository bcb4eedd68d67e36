"""The contract of all sinks: each gets the same run, with every kind of record in it, and has every point once."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import chiplog
from chiplog.core.records import ConsoleRecord, Record
from chiplog.sinks import registry
from tests.perfetto.processor import ask
from tests.sinks.conftest import png
from tests.sinks.mlflow.server import Server
from tests.support import packages
from tests.support.aim_runs import points as aim_points
from tests.support.aim_runs import runs as aim_runs
from tests.support.otlp import Endpoint
from tests.support.ports import free_port
from tests.support.prometheus_server import get, server
from tests.support.tensorboard_points import points as tensorboard_points
from tests.support.trackio_runs import rows as trackio_rows
from tests.support.wandb_runs import offline_rows

pytestmark = pytest.mark.timeout(300)

LOSSES = [(step, step / 8 + 0.5) for step in range(20)]  # what 32 bits hold exactly
Points = list[tuple[int, float]]


class Future(Record, frozen=True, tag="future"):
    """A kind of record that this version does not know when it reads it."""

    name: str


def everything(run: chiplog.Run, file: Path) -> None:
    """A run that says everything that can be said."""
    run.write(Future, name="from a newer version")
    run.write(ConsoleRecord, lines=["printed", "and open"], times=[1, 2], stderr=[0], open=[1])
    for step, loss in LOSSES:
        run.log({"train/loss": loss, "train/count": step, "train/on": step % 2 == 0}, step=step)
    run.log({"bad/nan": float("nan"), "bad/inf": float("-inf"), "bad/huge": 10**40, "ünï /\n": 1}, step=19)
    run.log(
        {
            "media/histogram": chiplog.Histogram(edges=[0, 1, 2], counts=[3, 4]),
            "media/matrix": chiplog.Matrix([[1, 2], [3, float("nan")]]),
            "media/text": chiplog.Text("<b>&"),
            "media/image": chiplog.Image(png()),
        },
        step=19,
    )
    run.eval({"loss": 2.5}, step=19)
    run.event("gpu", id=0, power=350.0, throttle="")
    run.event("moe", step=19, aux_loss=0.25, load_imbalance=1.5)
    run.event("allocator", stats=[{"name": "weights", "device": 1 << 30}])
    run.event("note", text="<script>", nothing=None, list=[1, [2]])
    run.table("samples", [{"prompt": "a", "score": 1.5}, {"prompt": "b", "other": [1]}], step=19)
    run.alert("look here", text="and there", level="error", step=19)
    with run.span("forward", tags={"micro": 3}):
        pass
    run.config["late"] = {"deep": [1, None]}
    run.summary["best"] = 0.5
    run.artifact(file, name="notes")


class Case(NamedTuple):
    """How a sink is opened for the test, and how its points are read back: of the training's loss, and of the eval's."""

    options: dict[str, Any]
    read: Callable[[chiplog.Run], tuple[Points, Points]]


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    if request.param not in CASES:
        pytest.fail(f"sink {request.param!r} has no entry in CASES: add how it is opened, and how its points are read")
    make: Callable[..., Case] = CASES[request.param]
    return make(tmp_path, request)


@pytest.mark.parametrize(("name", "case"), [(name, name) for name in registry.BUILT_IN], indirect=["case"])
def test_every_sink_takes_every_record_and_has_every_point_once(name: str, case: Case, tmp_path: Path) -> None:
    """Also the kinds it cannot show, those of a newer version, and numbers that are none."""
    file = tmp_path / "notes.txt"
    file.write_text("kept")
    sinks = {name: case.options}
    run = chiplog.init(
        "contract", sinks=sinks, dir=tmp_path / "runs", id="run", config={"lr": 0.1, "none": None}, alerts=False
    )
    everything(run, file)
    delivery = run.finish(timeout=120)
    assert delivery, delivery
    loss, evals = case.read(run)
    assert loss == LOSSES
    assert evals == [(19, 2.5)]


def _console(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    """Its lines are for people: at most 20 of them a second, so that not every step has one; the others are counted."""
    capsys: pytest.CaptureFixture[str] = request.getfixturevalue("capsys")

    def read(run: chiplog.Run) -> tuple[Points, Points]:
        out = capsys.readouterr()
        text = out.out + out.err
        assert "2.5" in text and "look here" in text
        return LOSSES, [(19, 2.5)]

    return Case({}, read)


def _csv(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    def read(run: chiplog.Run) -> tuple[Points, Points]:
        (path,) = (run.dir / "files").rglob("metrics.csv")
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return _column(rows, "train/loss"), _column(rows, "eval/loss")

    return Case({}, read)


def _jsonl(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    def read(run: chiplog.Run) -> tuple[Points, Points]:
        return _records([json.loads(line) for line in (run.dir / "files" / "metrics.jsonl").read_text().splitlines()])

    return Case({}, read)


def _json(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    def read(run: chiplog.Run) -> tuple[Points, Points]:
        return _records(json.loads((run.dir / "files" / "metrics.json").read_text()))

    return Case({}, read)


def _memory(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    def read(run: chiplog.Run) -> tuple[Points, Points]:
        rows = [{"step": row.step, **row.metrics} for row in run.sink("memory").rows]  # type: ignore[attr-defined]
        return _column(rows, "train/loss"), _column(rows, "eval/loss")

    return Case({}, read)


def _tensorboard(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    def read(run: chiplog.Run) -> tuple[Points, Points]:
        folder = run.dir / "files" / "tensorboard"
        return tensorboard_points(folder, "train/loss"), tensorboard_points(folder, "eval/loss")

    return Case({}, read)


def _perfetto(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    """Its counters have no steps: the values in their order; an eval is an instant."""
    query = "select c.value from counter c join track t on c.track_id = t.id where t.name = 'train/loss' order by c.ts"

    def read(run: chiplog.Run) -> tuple[Points, Points]:
        values, evals = ask(
            run.dir / "files" / "trace-r00000.pftrace", query, "select name from slice where name like 'eval%'"
        )
        assert len(evals) == 1
        return list(enumerate(row["value"] for row in values)), [(19, 2.5)]

    return Case({}, read)


def _aim(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    packages.need("aim")

    def read(run: chiplog.Run) -> tuple[Points, Points]:
        (found,) = aim_runs(tmp_path / "aim")
        return aim_points(found, "train/loss"), aim_points(found, "eval/loss")

    return Case({"repo": str(tmp_path / "aim")}, read)


def _mlflow(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    sqlite: Server = request.getfixturevalue("sqlite")

    def read(run: chiplog.Run) -> tuple[Points, Points]:
        found = sqlite.run("contract")
        return found.rows("train/loss"), found.rows("eval/loss")

    return Case({"uri": sqlite.uri, "experiment": "contract"}, read)


def _otel(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    endpoint = Endpoint()
    request.addfinalizer(endpoint.server.server_close)
    request.addfinalizer(endpoint.server.shutdown)

    def read(run: chiplog.Run) -> tuple[Points, Points]:
        def values(name: str) -> list[float]:
            return [value for found, _, value in endpoint.points if found == name]

        return list(enumerate(values("train/loss"))), [(19, value) for value in values("eval/loss")]

    return Case({"endpoint": endpoint.url}, read)


def _prometheus(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    """It has the last value of each series and nothing else."""
    gateway = server(tmp_path, "prometheus-pushgateway", port := free_port(), f"--web.listen-address=127.0.0.1:{port}")
    url = gateway.__enter__()
    request.addfinalizer(lambda: gateway.__exit__(None, None, None))

    def read(run: chiplog.Run) -> tuple[Points, Points]:
        lines = (get(f"{url}/metrics") or "").splitlines()
        last = {name: [line for line in lines if f'name="{name}"' in line] for name in ("train/loss", "eval/loss")}
        assert [line.split()[-1] for line in last["train/loss"]] == [str(LOSSES[-1][1]).removesuffix(".0")]
        return LOSSES, [(19, float(line.split()[-1])) for line in last["eval/loss"]]

    return Case({"push": url}, read)


def _trackio(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    def read(run: chiplog.Run) -> tuple[Points, Points]:
        found = trackio_rows(tmp_path, "metrics", "step, metrics", "contract")
        rows = [{"step": step, **json.loads(said)} for step, said in found]
        return _column(rows, "train/loss"), _column(rows, "eval/loss")

    return Case({"dir": str(tmp_path / "trackio")}, read)


def _wandb(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    def read(run: chiplog.Run) -> tuple[Points, Points]:
        rows = offline_rows(run.dir)
        return _column(rows, "train/loss"), _column(rows, "eval/loss")

    return Case({"mode": "offline"}, read)


CASES: dict[str, Callable[..., Case]] = {
    "console": _console,
    "csv": _csv,
    "jsonl": _jsonl,
    "json": _json,
    "memory": _memory,
    "tensorboard": _tensorboard,
    "perfetto": _perfetto,
    "aim": _aim,
    "mlflow": _mlflow,
    "otel": _otel,
    "prometheus": _prometheus,
    "trackio": _trackio,
    "wandb": _wandb,
}


def _column(rows: list[dict[str, Any]], name: str) -> Points:
    return [(int(row["step"]), float(row[name])) for row in rows if row.get(name) not in (None, "")]


def _records(found: list[dict[str, Any]]) -> tuple[Points, Points]:
    """Of files that have the records as they are."""
    rows = {kind: [{"step": one["step"], **one["metrics"]} for one in found if one["log"] == kind] for kind in _ROWS}
    return _column(rows["step"], "train/loss"), _column(rows["eval"], "loss")


_ROWS = ("step", "eval")
