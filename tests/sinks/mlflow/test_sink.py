"""The MLflow sink against real servers on SQLite and PostgreSQL: exactly once, whatever happens on the way."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import ssl
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.cli import main
from chiplog.core.errors import Rejected
from chiplog.core.identity import Identity
from chiplog.core.records import (
    Alert,
    Attempt,
    Eval,
    Event,
    File,
    Finish,
    HistogramRecord,
    MatrixRecord,
    Step,
    Table,
    TextRecord,
)
from tests.faults.harness import FULL, PATIENCE, count, trainer
from tests.sinks.mlflow.server import Postgres, Proxy, Server, locked, shared
from tests.support.waiting import wait_for

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of MLflow's own imports
    from chiplog.sinks.mlflow.sink import Mlflow, open_sink

pytestmark = [
    pytest.mark.timeout(max(PATIENCE, 600)),  # a server takes a minute to start on a busy machine
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]

START = 1_700_000_000_000_000_000


@pytest.fixture(scope="session")
def postgresql(place: Path) -> Iterator[Server]:
    database = Postgres(place / "postgresql")
    if not database.here:
        pytest.skip("PostgreSQL is not installed")

    def stop(server: Server) -> None:
        server.stop()
        database.stop()

    with shared(place / "postgresql", lambda folder: Server(folder, database.start()).start(), stop) as server:
        yield server


@pytest.fixture
def fragile(place: Path) -> Iterator[Server]:
    """A server that may be killed and stopped, by one test at a time."""
    with (
        shared(place / "fragile", lambda folder: Server(folder).start(), Server.stop) as server,
        locked(place / "turn"),
    ):
        yield server
        server.send(signal.SIGCONT)
        if not server.up():
            server.start()


@pytest.fixture(params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials and projects of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith(("MLFLOW_", "WB_", "WANDB_", "AMSC_"))]:
        monkeypatch.delenv(name)


def sink(tmp_path: Path, uri: str, experiment: str, **options: Any) -> Mlflow:
    """The sink of a run in `tmp_path`, new each time."""
    identity = Identity("tests", "run-1", tmp_path, "a name", "launch", ("tag",), cwd=str(tmp_path))
    return open_sink(identity, {"HOME": str(tmp_path)}, uri=uri, experiment=experiment, **{"system": False, **options})


def attempt(number: int) -> Attempt:
    return Attempt(0, START, number, "launch", 0, 4, f"node{number}", 1, 0, "process", "0.1")


def steps(first: int, last: int) -> list[Step]:
    return [Step(n, START + n * 20_000_000, n, {"loss": n / 7}) for n in range(first, last)]


def expected(first: int, last: int) -> list[tuple[int, float]]:
    return [(n, n / 7) for n in range(first, last)]


def stream(folder: Path) -> list[Any]:
    """A bit of everything, over two attempts, with a step that goes back."""
    (folder / "files" / "media").mkdir(parents=True)
    (folder / "files" / "media" / "a.png").write_bytes(b"\x89PNG picture")
    (folder / "files" / "report.md").write_text("# Report")
    (folder / "files" / "plots").mkdir()
    (folder / "files" / "plots" / "loss.svg").write_text("<svg/>")
    later = START + 10_000_000_000
    return [
        attempt(1),
        Event(1, START, "config", {"lr": 3e-4, "model": {"layers": 2}, "long": "x" * 9000}),
        Event(2, START, "environment", {"git": {"branch": "main"}, "packages": {"torch": "2.9"}, "device": "cuda"}),
        *steps(0, 5),
        Step(10, START, 5, {"loss": math.nan, "up": math.inf, "down": -math.inf, "huge": 10**400, "acc@5": 0.5}),
        Step(11, START, 5, {"x": 1.0, "x/mean": 2.0, "bad\ud800name": 1.0, "said": "text"}),
        Step(12, START, 2.75, {"half": 1.0}),
        Eval(13, START, 5, {"loss": 2.0}),
        Event(14, START, "gpu", {"id": 0, "power": 300.0, "dram_free": 1 << 20}),
        Event(15, START, "moe", {"aux_loss": 0.5}),
        Event(16, START, "allocator", {"stats": [{"name": "weights", "device": 1 << 21}]}),
        Event(17, START, "summary", {"best": 0.5}),
        Table(18, START, "samples", [{"a": 1, "b": "x"}], 5),
        Alert(19, START, "spike", "warn"),
        File(20, START, "picture", "files/media/a.png", "image/png", 12, step=5),
        HistogramRecord(21, START, "h", [0.0, 1.0], [3], 5),
        MatrixRecord(22, START, "m", [[1.0]], 5),
        TextRecord(23, START, "sample", "once upon a time", 5),
        Finish(24, later, "failed", "ValueError"),
        attempt(2),
        Event(1, later, "config", {"lr": 1e-4, "model": {"layers": 2}}),
        *(Step(n, later + n, n, {"loss": 100.0 + n}) for n in range(3, 5)),
    ]


def test_a_server_has_everything_of_a_stream(server: Server, tmp_path: Path) -> None:
    """Points, params, tags, files and the state of the run, read back by the API and from the database."""
    batch = stream(tmp_path)
    mine = sink(tmp_path, server.uri, f"stream {tmp_path}")
    mine.write(batch)
    mine.write([])
    run = server.run(f"stream {tmp_path}")
    assert run.info["status"] == "RUNNING"  # a new attempt after one that had failed
    assert run.info["run_name"] == "a name"
    assert run.tags["chiplog.run_id"] == "run-1"
    assert run.tags["chiplog.tags"] == "tag"
    assert run.tags["chiplog.attempt"] == "2"
    assert run.tags["chiplog.alert"] == "warn: spike"
    assert run.tags["summary.best"] == "0.5"
    assert run.params["model.layers"] == "2"
    assert (run.params["lr"], run.tags["lr"]) == ("0.0003", "0.0001")
    assert run.params["long"] == "x" * 6000
    assert (run.params["chiplog.host"], run.tags["chiplog.host"]) == ("node1", "node2")
    assert run.params["chiplog.world_size"] == "4"
    assert run.params["chiplog.git.branch"] == "main"
    assert run.params["chiplog.packages.torch"] == "2.9"
    assert run.params["chiplog.device"] == "cuda"
    assert {*run.latest} == {
        "loss", "up", "down", "huge", "acc_5-c4e871", "x/local", "x/mean", "bad_name-" + _mark("bad\ud800name"), "half",
        "eval/loss", "gpu/0/power", "gpu/0/dram_free", "train/moe_aux_loss", "train/aux_loss", "allocator/weights_mib",
    }  # fmt: skip
    loss = [(step, value) for step, value in run.history("loss") if not math.isnan(value)]
    assert sorted(loss) == sorted([*expected(0, 5), (3, 103.0), (4, 104.0)])
    assert sum(math.isnan(value) for _, value in run.history("loss")) == 1
    assert run.rows("half") == [(2, 1.0)]
    assert run.rows("up")[0][1] == -run.rows("down")[0][1] == run.rows("huge")[0][1] > 1e308
    assert run.rows("gpu/0/power") == [(6, 300.0)]  # no step of its own: the next after 5
    assert run.files() == ["a.png", f"texts/sample/{START}.txt"]
    mine.write([Finish(90, START + 20_000_000_000, "finished")])
    mine.close()
    run = server.run(f"stream {tmp_path}")
    assert run.info["status"] == "FINISHED"
    assert int(run.info["end_time"]) == (START + 20_000_000_000) // 1_000_000
    assert run.files() == ["a.png", "plots/loss.svg", "report.md", f"texts/sample/{START}.txt"]
    assert run.read("report.md") == b"# Report"


def test_a_batch_that_comes_again_changes_nothing(server: Server, tmp_path: Path) -> None:
    """After an error, partly sent before, and from another process that has lost its cursor."""
    name = f"again {tmp_path}"
    batch = [attempt(1), *steps(0, 1500), *(Event(n, START + n, "host", {"load": n}) for n in range(1500, 2000))]
    first = sink(tmp_path, server.uri, name)
    before = first.state()
    first.write(batch[:700])  # a part of it had arrived
    first.restore(before)
    first.write(batch)
    state = first.state()
    assert server.run(name).count() == 2000
    first.write(batch[-1:])
    first.restore(state)
    assert first.state() == state
    lost = sink(tmp_path, server.uri, name)
    lost.restore({})
    lost.write(batch)
    run = server.run(name)
    assert run.id == state["run"]
    assert run.rows("loss") == run.history("loss") == expected(0, 1500)
    assert run.rows("host/load") == [*[(n, float(n)) for n in range(1500, 2001)][:500], (2000, 1999.0)]


@pytest.mark.parametrize(
    ("said", "status"), [("finished", "FINISHED"), ("failed", "FAILED"), ("interrupted", "KILLED")]
)
def test_the_run_ends_as_it_ended(sqlite: Server, tmp_path: Path, said: str, status: str) -> None:
    """In the words of MLflow."""
    mine = sink(tmp_path, sqlite.uri, f"ends {tmp_path}")
    mine.write([attempt(1), *steps(0, 2), Finish(9, START, said, "why")])
    mine.close()
    run = sqlite.run(f"ends {tmp_path}")
    assert (run.info["status"], run.tags["chiplog.reason"]) == (status, "why")


def test_a_deleted_run_is_not_delivered_to(sqlite: Server, tmp_path: Path) -> None:
    """Its records are not thrown away as rejected: the sink says what to do. Restored, it goes on."""
    name = f"deleted {tmp_path}"
    mine = sink(tmp_path, sqlite.uri, name)
    mine.write(steps(0, 10))
    run = sqlite.run(name)
    sqlite.ask("runs/delete", run_id=run.id)
    with pytest.raises(RuntimeError, match="has been deleted; restore it there"):
        mine.write(steps(10, 20))
    sqlite.ask("runs/restore", run_id=run.id)
    mine.write(steps(10, 20))
    assert sqlite.run(name).rows("loss") == expected(0, 20)


def test_a_run_that_was_created_twice_is_one_at_the_end(sqlite: Server, tmp_path: Path) -> None:
    """An answer to `create_run` may be lost, and the request done late: what is left empty is deleted."""
    name = f"strays {tmp_path}"

    def weather(head: bytes, body: bytes) -> str:
        return "deaf" if b"runs/create" in head and proxy.done.get("deaf", 0) < 3 else "pass"

    with Proxy(sqlite.about["port"], weather) as proxy:
        mine = sink(tmp_path, proxy.uri, name)
        with pytest.raises(Exception, match="runs/create"):
            mine.write(steps(0, 10))
        assert len(sqlite.runs(name)) == 2  # the client tried twice
        mine.write(steps(0, 10))
        mine.close()
    assert sqlite.run(name).rows("loss") == expected(0, 10)


def test_what_is_refused_is_told_from_what_is_down(sqlite: Server, tmp_path: Path) -> None:
    """400 and 413 are for good, 401 and 500 are not; a refused file costs the points nothing."""
    name = f"refused {tmp_path}"
    answer = "pass"

    def weather(head: bytes, body: bytes) -> str:
        return answer if b"log-batch" in head or b"mlflow-artifacts" in head else "pass"

    with Proxy(sqlite.about["port"], weather) as proxy:
        mine = sink(tmp_path, proxy.uri, name)
        mine.write(steps(0, 1))
        for answer in ("400", "413", "422"):  # noqa: B007  read by the weather
            with pytest.raises(Rejected):
                mine.write(steps(1, 2))
        for answer in ("401", "403", "429", "500", "503", "reset"):
            with pytest.raises(Exception) as raised:
                mine.write(steps(1, 2))
            assert not isinstance(raised.value, Rejected), answer
        answer = "pass"
        (tmp_path / "file").write_text("x")
        mine.write([*steps(1, 2)])
        answer = "403"
        with pytest.raises(Rejected):
            mine.write([File(2, START, "file", "file")])
    assert sqlite.run(name).rows("loss") == expected(0, 2)


# -- the whole way: a run, its relay and a server ---------------------------------------------------------------------


def begin(tmp_path: Path, server: Server | Proxy, experiment: str, **more: Any) -> chiplog.Run:
    options = {"uri": server.uri, "experiment": experiment, "system": False}
    return chiplog.init("tests", sinks={"mlflow": options}, dir=tmp_path / "runs", id="run", alerts=False, **more)


def relay_pid(run: Path) -> int:
    path = run / "relay" / "r00000-a01.json"
    return int(wait_for(lambda: path.exists() and json.loads(path.read_text())["pid"], 120))


def complete(run: Path) -> None:
    """Deliver the rest from another process, as often as a busy machine needs."""
    wait_for(lambda: main(["sync", str(run)]) == 0, 300)


def test_the_end_brings_files_tables_and_system_metrics(
    sqlite: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the relay: the whole JSONL, artifacts, tables as MLflow shows them, and MLflow's own view of the machine."""
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.2")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", sqlite.uri)
    monkeypatch.setenv("WANDB_PROJECT", f"end {tmp_path}")
    (tmp_path / "data.bin").write_bytes(b"data")
    run = chiplog.init("tests", sinks="mlflow,jsonl", dir=tmp_path / "runs", config={"lr": 1})
    run.artifact(tmp_path / "data.bin", name="dataset")
    for name in ("report.md", "report.html", "metrics.jsonl"):
        (tmp_path / name).write_text(name)
        run.artifact(tmp_path / name)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside.txt").write_text("x")
    run.artifact(tmp_path / "folder")
    for step in (0, 7):
        run.log({"plots/loss": chiplog.Image(b"\x89PNG\r\n\x1a\n")}, step=step)
    run.table("samples", [{"a": 1}, {"a": 2, "b": "x"}])

    def measured() -> bool:
        found = sqlite.runs(f"end {tmp_path}")
        return bool(found) and any(one["key"].startswith("system/cpu") for one in found[0]["data"].get("metrics", []))

    for step in range(10_000):
        run.log({"loss": step / 7}, step=step)
        if step % 50 == 0 and measured():
            break
        time.sleep(0.02)
    last = step
    run.finish(timeout=60)
    complete(run.dir)
    found = sqlite.run(f"end {tmp_path}")
    assert found.info["status"] == "FINISHED"
    assert found.rows("loss") == expected(0, last + 1)
    assert found.files() == [
        "dataset.bin", "files/metrics.jsonl", "folder/inside.txt", "metrics.jsonl", "plots/loss-7.png",
        "plots/loss.png", "report.html", "report.md", "tables/samples.json",
    ]  # fmt: skip
    assert (found.read("report.md"), found.read("report.html")) == (b"report.md", b"report.html")
    assert found.read("metrics.jsonl") == b"metrics.jsonl", "a person's file is not replaced by one of ours"
    assert found.read("files/metrics.jsonl") == (run.dir / "files" / "metrics.jsonl").read_bytes()
    assert b'"finish"' in found.read("files/metrics.jsonl").splitlines()[-1]
    assert json.loads(found.read("tables/samples.json"))["data"][1][-2:] == [2, "x"]
    assert "tables/samples.json" in found.tags["mlflow.loggedArtifacts"]
    assert any(name.startswith("system/") for name in found.latest)


def test_a_killed_offline_run_is_synced_to_a_server_that_never_saw_it(
    sqlite: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that was acknowledged arrives, and the run is marked as killed."""
    code = """
    run = init(config={"lr": 1})
    for n in range(100000):
        run.log({"loss": n / 7}, step=n)
        ack(n)
        time.sleep(0.001)
    """
    with trainer(tmp_path, code) as victim:
        victim.until_acked(500, 120)
        victim.kill_tree()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", sqlite.uri)
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", f"sync {tmp_path}")
        done = subprocess.run(
            [sys.executable, "-m", "chiplog", "sync", str(victim.run), "--to", "mlflow"],
            check=True, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert "mlflow: complete" in done.stdout
        run = sqlite.run(f"sync {tmp_path}")
        rows = run.rows("loss")
        assert len(rows) > victim.acked
        assert rows == expected(0, len(rows))
        assert (run.info["status"], run.params["lr"]) == ("KILLED", "1")


def test_a_server_that_is_killed_and_started_again_has_every_point_once(fragile: Server, tmp_path: Path) -> None:
    """A run of 50 steps a second does not notice, and nothing is lost, doubled or out of order."""
    name = f"killed {tmp_path}"
    over = threading.Event()
    noise = random.Random(4)

    def torment() -> None:
        for _ in range(count(2, 5)):
            time.sleep(noise.uniform(1, 4))
            fragile.kill()
            time.sleep(noise.uniform(0.5, 2) if not FULL else noise.uniform(3, 15))
            fragile.start()
        over.set()

    run = begin(tmp_path, fragile, name)
    wait_for(lambda: fragile.runs(name), 180)
    tormentor = threading.Thread(target=torment, daemon=True)
    tormentor.start()
    last = 0
    while not over.is_set():
        run.log({"loss": last / 7}, step=last)
        last += 1
        time.sleep(0.02)
    run.finish(timeout=30)
    complete(run.dir)
    found = fragile.run(name)
    assert found.rows("loss") == found.history("loss") == expected(0, last)
    assert run.health()["sinks"]["mlflow"]["rejected"] == 0


def test_a_server_that_hangs_holds_nobody(fragile: Server, tmp_path: Path) -> None:
    """`log` goes on, `finish` is bounded and says what is missing, and sync completes when it is back."""
    name = f"hangs {tmp_path}"
    run = begin(tmp_path, fragile, name)
    run.log({"loss": 0.0}, step=0)
    wait_for(lambda: fragile.runs(name) and fragile.run(name).rows("loss"), 180)
    fragile.send(signal.SIGSTOP)
    for step in range(1, 200):
        run.log({"loss": step / 7}, step=step)
    began = time.monotonic()
    done = run.finish(timeout=3)
    assert time.monotonic() - began < 8
    assert f"chiplog sync {run.dir}" in done.missing["mlflow"]
    os.kill(relay_pid(run.dir), signal.SIGKILL)
    fragile.send(signal.SIGCONT)
    complete(run.dir)
    assert fragile.run(name).rows("loss") == expected(0, 200)


def test_a_network_with_weather_costs_nothing_but_time(sqlite: Server, tmp_path: Path) -> None:
    """Latency, resets on the way there and back, cut answers, 429 and 500, 413 for what is large; one record that is
    rejected is left out alone, is not called delivered, and arrives once it is accepted."""
    name = f"weather {tmp_path}"
    noise = random.Random(7)
    calm = accepted = False

    def weather(head: bytes, body: bytes) -> str:
        if b"log-batch" in head and b'"poison"' in body and not accepted:
            return "400"
        if len(body) > 20_000:
            return "413"
        return "pass" if calm or noise.random() < 0.5 else noise.choice(
            ["slow", "reset", "torn", "deaf", "cut", "429", "500"]
        )  # fmt: skip

    with Proxy(sqlite.about["port"], weather) as proxy:
        run = begin(tmp_path, proxy, name)
        deadline = time.monotonic() + count(12, 300)
        last = 0
        while time.monotonic() < deadline or (len(proxy.done) < 6 and last < 10_000):
            run.log({"poison" if last == 100 else "loss": last / 7}, step=last)
            last += 1
            time.sleep(0.01)
        calm = True
        delivery = run.finish(timeout=60)
        assert "1 record was rejected" in str(delivery) or "behind" in str(delivery)
        others = [row for row in expected(0, last) if row[0] != 100]
        wait_for(lambda: main(["sync", str(run.dir)]) == 2 and sqlite.run(name).rows("loss") == others, 300)
        assert "poison" not in sqlite.run(name).latest
        accepted = True
        complete(run.dir)
    delivered = sqlite.run(name)
    assert delivered.rows("loss") == delivered.history("loss") == others
    assert [step for step, _ in delivered.rows("poison")] == [100]
    assert delivered.info["status"] == "FINISHED"


def test_credentials_are_sent_and_kept_nowhere(sqlite: Server, tmp_path: Path) -> None:
    """From the files of a project, to the server, and into no file, log, error or argument."""
    secrets = ("tok-hunter2-abcdef", "key-hunter3-abcdef")
    (tmp_path / ".amsc.env").write_text(f"export AMSC_API_KEY='{secrets[1]}'\nMLFLOW_TRACKING_TOKEN=older\n")
    with Proxy(sqlite.about["port"], lambda head, body: "500" if len(proxy.seen) < 3 else "pass") as proxy:
        (tmp_path / ".env").write_text(f"MLFLOW_TRACKING_TOKEN={secrets[0]}\nMLFLOW_TRACKING_URI={proxy.uri}\n")
        run = chiplog.init("secrets", sinks={"mlflow": {"experiment": f"secrets {tmp_path}"}}, dir=tmp_path / "runs")
        run.log({"loss": 1.0}, step=0)
        wait_for(lambda: sqlite.runs(f"secrets {tmp_path}"), 240)
        words = Path(f"/proc/{relay_pid(run.dir)}/cmdline").read_bytes()
        run.finish(timeout=60)
        complete(run.dir)
        assert any(f"Bearer {secrets[0]}".encode() in head for head in proxy.seen)
        assert all(f"X-API-Key: {secrets[1]}".encode() in head for head in proxy.seen)
    for secret in secrets:
        assert secret.encode() not in words
        for path in run.dir.rglob("*"):
            assert path.is_dir() or secret.encode() not in path.read_bytes(), path


def test_a_certificate_of_ones_own_is_trusted_when_that_is_asked_for(sqlite: Server, tmp_path: Path) -> None:
    """Not before, and the error says what it was about; then without a warning for every request."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key} -out {certificate}"
    subprocess.run(words.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    name = f"secure {tmp_path}"
    run = chiplog.init("tests", sinks="none", dir=tmp_path / "runs", alerts=False)
    run.log({"loss": 0.0}, step=0)
    run.finish()
    with Proxy(sqlite.about["port"], lambda head, body: "pass", tls=context) as proxy:
        with pytest.raises(Exception, match=r"(?i)certificate"):
            sink(tmp_path, proxy.uri, name).write(steps(0, 1))
        assert not proxy.seen
        world = {
            "MLFLOW_TRACKING_URI": proxy.uri,
            "MLFLOW_EXPERIMENT_NAME": name,
            "MLFLOW_TRACKING_INSECURE_TLS": "true",
        }
        words = f"{sys.executable} -m chiplog sync {run.dir} --to mlflow"
        done = subprocess.run(
            words.split(), env={**os.environ, **world}, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0 and "InsecureRequestWarning" not in done.stderr, done.stdout + done.stderr
    assert sqlite.run(name).rows("loss") == [(0, 0.0)]


def _mark(name: str) -> str:
    from hashlib import sha256

    return sha256(name.encode(errors="surrogatepass")).hexdigest()[:6]
