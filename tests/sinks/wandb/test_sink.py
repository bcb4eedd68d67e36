"""The wandb sink against the real SDK: offline with its file read back, online against an endpoint that speaks its API."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import textwrap
import time
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

import chiplog
from chiplog.core import records
from tests.faults.harness import count, trainer
from tests.sinks.wandb.server import Remote, Server
from tests.support.destinations import enrol
from tests.support.waiting import wait_for
from tests.support.wandb_runs import (
    KEY,
    PRELUDE,
    QUICK,
    cursor,
    environ,
    kill_relay,
    kill_tree,
    offline_rows,
    relay_pids,
    server,
    sync,
    train,
)

__all__ = ["server"]  # fixtures

pytestmark = pytest.mark.timeout(300)


def train_until(said: str, code: str, world: dict[str, str]) -> str:
    """Run a training script that waits for the file `go`, which it gets when stderr says so; all of stderr."""
    Path("train.py").write_text(PRELUDE % QUICK + textwrap.dedent(code))
    with Path("stderr").open("w") as stderr:
        running = subprocess.Popen([sys.executable, "train.py"], env=world, stderr=stderr)
    try:
        wait_for(lambda: said in Path("stderr").read_text() or running.poll() is not None, 60)
        Path("go").touch()
        assert running.wait(60) == 0, Path("stderr").read_text()
    finally:
        running.kill()
        running.wait()
    return Path("stderr").read_text()


EVERYTHING = """
import numpy
run = init(config={"lr": 3e-4}, name="first", tags=["a"])
Path("notes.txt").write_text("an artifact")
run.log({"train/loss": 2.5, "train/lr": 1e-3}, step=5)
run.log({"train/loss": float("nan"), "x": float("inf"), "huge": 2**70, "_own": 1.0, "lone\\ud800": 2.0}, step=6)
run.eval({"loss": 3.0}, step=6)
run.log({"train/loss": 2.0}, step=2)
run.config["later"] = 7
run.summary["best"] = 1.5
run.event("gpu", id=0, power=350, dram_free=1 << 30, pcie_rx=1 << 21, step=7)
run.event("moe", aux_loss=0.5, load_cv=0.25, step=7)
run.event("allocator", stats=[{"name": "weights", "device": 3 << 20}, {"name": "other", "device": 1 << 20}], step=7)
run.table("history", [{"a": 1, "b": "x"}], step=7)
run.table("history", [{"a": 2, "b": "y"}], step=8)
run.log({"hist": chiplog.Histogram(counts=[1, 2], edges=[0, 1, 2]), "said": chiplog.Text("<hello>")}, step=8)
run.log({"m": chiplog.Matrix([[1, 2], [3, 4]])}, step=8)
class Pixels:
    shape, dtype = (2, 2), "uint8"
    def __iter__(self): return iter([[0, 255], [255, 0]])
run.log({"picture": chiplog.Image(Pixels(), caption="cap")}, step=8)
run.alert("too hot", level="error", text="90 degrees")
run.artifact("notes.txt", name="notes")
for name in ("report.md", "report.html"):
    Path(name).write_text(name)
    run.artifact(name)
end(run)
assert "wandb" not in sys.modules
"""


def check_everything(run: Remote) -> None:
    """What the script above logged, as W&B has it."""
    loss = run.series("train/loss")
    assert [step for step, _ in loss] == [5, 6, 2], "steps that go back must arrive"
    assert loss[0][1] == 2.5 and loss[1][1] != loss[1][1] and loss[2][1] == 2.0
    assert run.series("x") == [(6, float("inf"))]
    assert run.series("huge") == [(6, float(2**70))]
    assert run.series("x_own") == [(6, 1.0)]
    assert any(name.startswith("lone") for row in run.rows for name in row)
    assert run.series("eval/loss") == [(6, 3.0)]
    assert run.series("gpu/0/power") == [(7, 350)]
    assert run.series("gpu/0/dram_free") == [(7, 1024)]
    assert run.series("gpu/0/pcie_rx") == [(7, 2)]
    assert run.series("train/aux_loss") == run.series("train/moe_aux_loss") == [(7, 0.5)]
    assert run.series("train/moe_load_cv") == [(7, 0.25)]
    assert run.series("allocator/weights_mib") == [(7, 3)]
    assert run.series("allocations")[0][1]["_type"] == "html-file"
    assert [one["increment_num"] for _, one in run.series("history")] == [0, 1]
    assert run.series("hist")[0][1] == {"_type": "histogram", "values": [1, 2], "bins": [0, 1, 2]}
    assert run.series("said")[0][1]["_type"] == "html-file"
    assert run.series("m")[0][1]["_type"] == "table-file"
    picture = run.series("picture")[0][1]
    assert (picture["_type"], picture["caption"], picture["width"]) == ("image-file", "cap", 2)


def test_everything_arrives(server: Server) -> None:
    """Numbers, steps that go back, config, summary, tables, pictures, alerts and artifacts, from the relay."""
    done = train(EVERYTHING, environ(server))
    run = server.runs["run"]
    check_everything(run)
    assert (run.project, run.name, run.about["tags"], run.exit) == ("tiny-lm", "first", ["a"], 0)
    config = run.values()
    assert (config["lr"], config["later"]) == (3e-4, 7)
    assert config["environment"]["host"] == os.uname().nodename
    assert config["environment"]["python"] and config["environment"]["packages"]["numpy"]
    assert run.summary["best"] == 1.5
    (alert,) = [one for one in run.alerts if one["title"] == "too hot"]
    assert (alert["title"], alert["text"], alert["severity"]) == ("too hot", "90 degrees", "ERROR")
    kept = {one["name"]: one for one in server.artifacts if one["committed"]}
    assert b"an artifact" in kept["run-notes"]["files"].values()
    for name in ("report.md", "report.html"):
        assert kept[f"run-{name}"]["files"][name] == name.encode(), "each under its own name"
    pie = run.files[run.series("allocations")[0][1]["path"]].decode()
    assert "<svg" in pie and "weights  3.0 MiB, 75.0%" in pie and "plotly" not in pie
    assert "&lt;hello&gt;" in run.files[run.series("said")[0][1]["path"]].decode()
    assert run.files[run.series("picture")[0][1]["path"]].startswith(b"\x89PNG")
    defined = run.config["_wandb"]["value"]["m"]
    assert any(one.get("2") == "*" and one.get("5") == 1 for one in defined), "step is the axis of everything"
    stamps = [json.loads(line)["_timestamp"] for line in run.lines]
    assert stamps == sorted(stamps) and abs(stamps[0] - time.time()) < 300
    assert "_wandb" not in done.stderr
    assert not any(name in run.files for name in ("requirements.txt", "wandb-metadata.json", "output.log"))


def test_secrets_are_in_no_file_and_no_argument(server: Server) -> None:
    """The key reaches the server, and stays nowhere."""
    train('run = init(); run.log({"loss": 1.0}); end(run)', environ(server))
    assert KEY in server.keys
    for path in Path("runs/tiny-lm/run").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
        assert path.stat().st_mode & 0o077 == 0, path


def test_offline_is_a_file_that_the_sdk_can_read(server: Server) -> None:
    """All rows are in the `.wandb` file of the run, even if the script has a W&B process of its own, which is gone by
    then; a later sync to a server begins with the first record again."""
    train(EVERYTHING, {**environ(), "WANDB_SERVICE": "3-1-tcp-localhost-9"})
    rows = offline_rows()
    assert [row["step"] for row in rows if "train/loss" in row] == [5, 6, 2]
    assert [row["eval/loss"] for row in rows if "eval/loss" in row] == [3.0]
    assert cursor()["state"]["where"] == "offline" and cursor()["state"]["rows"] == len(rows)
    done = sync(environ(server))
    assert done.returncode == 0, done.stderr
    assert "restarts from the first record" in done.stderr
    check_everything(server.runs["run"])
    assert len(server.runs["run"].rows) == len(rows)


def test_the_end_brings_the_history_as_one_table(server: Server) -> None:
    """Where it is asked for: a row a step, a column a series; each attempt's end brings the whole of it, once."""
    code = """
    run = init(sinks={{"wandb": {{"settings": {1}, "history": True}}}})
    run.log({{"train/loss": {0} / 2, "bad": float("nan")}}, step={0})
    run.log({{"train/lr": 0.5}}, step={0})
    run.eval({{"loss": 3.0}}, step={0})
    end(run)
    """
    train(code.format(0, QUICK), environ(server))
    train(code.format(1, QUICK), environ(server))
    assert sync(environ(server)).returncode == 0
    run = server.runs["run"]
    found = [one for _, one in run.series("training_history")]
    assert [one["nrows"] for one in found] == [2, 4]
    table = json.loads(run.files[found[1]["path"]])
    assert table["columns"] == ["step", "train/loss", "bad", "train/lr", "eval/loss"]
    assert [[*row[:2], *row[3:]] for row in table["data"]] == [
        [0, 0.0, 0.5, None],
        [0, None, None, 3.0],
        [1, 0.5, 0.5, None],
        [1, None, None, 3.0],
    ]


def test_a_long_history_is_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the table has as many rows as W&B shows, from the first step to about the last."""
    from chiplog.sinks.wandb import rows as wandb_rows

    monkeypatch.setattr(wandb_rows, "MOST_ROWS", 10)
    with chiplog.init("tiny-lm", id="run", dir="runs", sinks="none") as run:
        for step in range(35):
            run.log({"loss": step / 7}, step=step)
    table = wandb_rows.history_table(run.dir)
    assert [row[0] for row in table.data] == [0, 4, 8, 12, 16, 20, 24, 28, 32]


def test_a_resumed_run_goes_on_in_the_same_chart(server: Server) -> None:
    """The same id, one history: the second attempt's rows follow the first's, and tables go on too."""
    code = """
    run = init(resume={0})
    for step in range({1}, {2}):
        run.log({{"loss": step / 7}}, step=step)
    run.table("t", [{{"step": {1}}}])
    end(run)
    """
    train(code.format("None", 0, 20), environ(server))
    train(code.format("'tiny-lm/run'", 15, 30), environ(server))
    run = server.runs["run"]
    assert list(server.runs) == ["run"]
    assert [step for step, _ in run.series("loss")] == [*range(20), *range(15, 30)]
    assert [one["increment_num"] for _, one in run.series("t")] == [0, 1]
    assert run.sent == len(run.lines)


def test_by_step_what_has_no_whole_step_joins_the_one_before(server: Server) -> None:
    """W&B's own steps are whole: nothing is left out, and a fraction is in the row."""
    code = """
    run = init(sinks={"wandb": {"by_step": True, "settings": {"x_file_stream_transmit_interval": 1.0}}})
    run.log({"loss": 1.0}, step=1)
    run.event("speed", tokens=7.0)
    run.log({"loss": 2.0}, step=2)
    run.log({"lr": 2.5}, step=2.5)
    run.log({"loss": 4.0}, step=4.0)
    end(run)
    """
    train(code, environ(server))
    rows = [json.loads(line) for line in server.runs["run"].lines]
    kept = [{key: value for key, value in row.items() if key == "_step" or key[0] != "_"} for row in rows]
    assert kept == [
        {"_step": 1, "loss": 1.0, "speed/tokens": 7.0},
        {"_step": 2, "loss": 2.0, "lr": 2.5, "step": 2.5},
        {"_step": 4, "loss": 4.0},
    ]


def test_a_deleted_run_goes_on_as_a_new_one(server: Server) -> None:
    """W&B never takes an id again, and its SDK tries for as long as it may; the cursor knows the new one."""
    quick = {"sinks": {"wandb": {"settings": {**QUICK, "init_timeout": 15}}}}
    train(f'run = init(**{quick}); run.log({{"loss": 1.0}}, step=0); end(run)', environ(server))
    server.delete("run")
    train(f'run = init(**{quick}); run.log({{"loss": 2.0}}, step=1); end(run)', environ(server))
    assert server.runs["run-2"].series("loss") == [(1, 2.0)]
    assert cursor()["state"]["id"] == "run-2"
    train(f'run = init(**{quick}); run.log({{"loss": 3.0}}, step=2); end(run)', environ(server))
    assert server.runs["run-2"].series("loss") == [(1, 2.0), (2, 3.0)]


def test_a_server_that_comes_late_and_goes_in_between(server: Server) -> None:
    """Down at the start, killed twice during the run: one warning, and everything once and in order."""
    server.stop()
    code = """
    run = init()
    for step in range(60):
        run.log({"loss": step / 7}, step=step)
        if step in (20, 40):
            Path(f"at-{step}").touch()
            while not Path(f"go-{step}").exists():
                time.sleep(0.05)
    end(run)
    """
    Path("train.py").write_text(PRELUDE % QUICK + textwrap.dedent(code))
    with subprocess.Popen(
        [sys.executable, "train.py"], env=environ(server), stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(Path("at-20").exists, 60)
        server.start()
        wait_for(lambda: len(server.runs.get("run", Remote("")).lines) == 21, 120)
        server.stop()
        Path("go-20").touch()
        wait_for(Path("at-40").exists, 60)
        wait_for(lambda: _delivered() >= 41, 60, "the package has the rows, and nowhere to send them")
        server.start()
        wait_for(lambda: len(server.runs["run"].lines) == 41, 120)
        server.stream_weather = 503
        Path("go-40").touch()
        wait_for(lambda: server.storms, 60)
        server.stream_weather = None
        _, said = process.communicate(timeout=150)
    assert process.returncode == 0, said
    assert said.count("sink 'wandb' failed") <= 1
    assert server.runs["run"].series("loss") == [(step, step / 7) for step in range(60)]


def _delivered() -> int:
    """How many records the relay has passed to W&B's package."""
    (status,) = Path("runs/tiny-lm/run/relay").glob("r*.json")
    return int(json.loads(status.read_text())["services"]["wandb"]["delivered"])


def test_finish_is_bounded_while_the_server_hangs(server: Server) -> None:
    """It says what is missing and how to complete it; sync does, with nothing lost and nothing twice."""
    server.weather = "hang"
    code = """
    run = init()
    for step in range(30):
        run.log({"loss": step / 7}, step=step)
    began = time.monotonic()
    done = run.finish(timeout=3)
    assert not done and "chiplog sync" in done.missing["wandb"], done.missing
    assert time.monotonic() - began < 15
    """
    began = time.monotonic()
    train(code, environ(server))
    assert time.monotonic() - began < 60
    kill_relay()
    server.weather = None
    done = sync(environ(server))
    assert done.returncode == 0 and "wandb: complete" in done.stdout, done.stderr
    assert server.runs["run"].series("loss") == [(step, step / 7) for step in range(30)]


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_relay_that_is_killed_loses_nothing(server: Server, tmp_path: Path, mode: str) -> None:
    """SIGKILL of the relay and of the SDK's process, at any moment: online each row is there once, offline a batch may
    be there twice."""
    code = """
    run = init(sinks={"wandb": {"settings": {"x_file_stream_transmit_interval": 1.0}}})
    for n in range(100_000):
        run.log({"loss": n / 7}, step=n)
        ack(n)
        time.sleep(0.02)
    """
    world = environ(server if mode == "online" else None)
    for turn in range(count(2, 100)):
        with trainer(tmp_path, code, env=world) as victim:
            first = victim.acked
            victim.until_acked(max(first, 0) + 50, 60)
            wait_for(lambda: delivered(victim.run) > 20, 120)
            time.sleep(turn % 10 / 10)
            for pid in relay_pids(victim.run):
                kill_tree(pid)
            victim.kill_tree()
        done = subprocess.run(
            [sys.executable, "-m", "chiplog", "sync", str(victim.run)],
            env=world,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    logged = [(one.step, one.metrics["loss"]) for one in journal(victim.run) if isinstance(one, records.Step)]
    if mode == "online":
        run = server.runs["run"]
        assert run.series("loss") == logged
    else:
        found = [(row["step"], row["loss"]) for row in offline_rows(victim.run) if "loss" in row]
        assert set(found) == set(logged)
        assert len(found) - len(logged) < count(2, 100) * 200


def test_sync_of_a_run_whose_whole_tree_was_killed(server: Server, tmp_path: Path) -> None:
    """Offline, killed with everything it had started: the journal is enough for a server that was never seen."""
    code = """
    run = init(sinks={"wandb": {"mode": "offline"}})
    for n in range(500):
        run.log({"loss": n / 7}, step=n)
        ack(n)
    time.sleep(100)
    """
    with trainer(tmp_path, code, env=environ()) as victim:
        victim.until_acked(499, 60)
        victim.kill_tree()
        for pid in relay_pids(victim.run):
            kill_tree(pid)
    enrol(victim.run, "wandb", {"settings": QUICK})
    words = [sys.executable, "-m", "chiplog", "sync", str(victim.run)]
    done = subprocess.run(words, env=environ(server), capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert server.runs["run"].series("loss") == [(n, n / 7) for n in range(500)]
    assert server.runs["run"].exit == 1, "it did not end by itself"


@pytest.mark.parametrize("status", (403, 402)[: count(1, 2)])
def test_a_quota_or_a_missing_right_is_one_warning(server: Server, status: int) -> None:
    """The training goes on, the end is bounded and says what is missing; when the account is in order, sync completes it."""
    server.weather = status
    code = """
    run = init()
    for step in range(30):
        run.log({"loss": step / 7}, step=step)
    while not Path("go").exists(): time.sleep(0.05)
    run.log({"loss": 30 / 7}, step=30)
    assert not run.finish(timeout=2)
    """
    said = train_until("sink 'wandb' failed", code, environ(server))
    kill_relay()
    assert said.count("sink 'wandb' failed") == 1 and "Traceback" not in said
    server.weather = None
    done = sync(environ(server))
    assert done.returncode == 0 and "wandb: complete" in done.stdout, done.stderr
    assert server.runs["run"].series("loss") == [(step, step / 7) for step in range(31)]


def test_without_a_key_it_says_what_to_set(server: Server) -> None:
    """One warning that names the variables, no prompt, and the run is in the journal."""
    world = environ(server)
    del world["WANDB_API_KEY"]
    code = """
    run = init(); run.log({"loss": 1.0})
    while not Path("go").exists(): time.sleep(0.05)
    assert not run.finish(timeout=1)
    """
    said = train_until("WANDB_API_KEY", code, world)
    kill_relay()
    assert said.count("WANDB_API_KEY") == 1 and "WANDB_MODE=offline" in said
    assert server.runs == {}


def test_on_a_thread_the_native_run_is_at_hand(server: Server) -> None:
    """`run.sink("wandb").native` is the SDK's run, once something has been sent."""
    code = """
    run = init(relay="thread")
    run.log({"loss": 1.0}, step=3)
    while run.sink("wandb").native is None: time.sleep(0.05)
    assert run.sink("wandb").native.id == "run"
    end(run)
    """
    train(code, environ(server))
    assert server.runs["run"].series("loss") == [(3, 1.0)]


def test_the_variables_of_wandb_are_respected(server: Server) -> None:
    """Every one that says who, where and what a run is, where no option says it."""
    said = {
        "WANDB_RUN_ID": "mine",
        "WANDB_PROJECT": "elsewhere",
        "WANDB_ENTITY": "us",
        "WANDB_NAME": "first try",
        "WANDB_NOTES": "a note",
        "WANDB_TAGS": "a,b",
        "WANDB_RUN_GROUP": "together",
        "WANDB_JOB_TYPE": "eval",
        "WANDB_DIR": "theirs",
    }
    train('run = init(); run.log({"loss": 1.0}, step=0); end(run)', environ(server, **said))
    run = server.runs["mine"]
    assert run.series("loss") == [(0, 1.0)] and run.exit == 0
    about = (run.project, run.entity, run.name, *(run.about[key] for key in ("notes", "tags", "groupName", "jobType")))
    assert about == ("elsewhere", "us", "first try", "a note", ["a", "b"], "together", "eval")
    assert list(Path("theirs/wandb").glob("run-*-mine")) and not Path("runs/tiny-lm/run/files/wandb").exists()
    world = environ(server)
    assert sync(world, "--to", "wandb").returncode == 0, "from a shell that has none of them"
    assert list(server.runs) == ["mine"] and len(run.lines) == 1


def test_a_place_of_wandb_follows_the_umask() -> None:
    """What the user has named is theirs, and nobody else's settings are forced upon it."""
    code = """
    os.umask(0o022)
    run = init(); run.log({"loss": 1.0}, step=0); end(run)
    """
    train(code, environ(WANDB_DIR="theirs"))
    (file,) = Path("theirs/wandb").glob("offline-run-*/run-run.wandb")
    assert file.stat().st_mode & 0o777 == 0o644 and file.parent.stat().st_mode & 0o777 == 0o755
    assert Path("runs/tiny-lm/run").stat().st_mode & 0o777 == 0o700


def test_variables_go_before_our_settings() -> None:
    """And the option `settings` before both."""
    ours = import_module("chiplog.sinks.wandb.options").default_settings
    assert ours({})["init_timeout"] == 60.0 and ours({})["x_file_stream_transmit_interval"] == 2.0
    left = ours({"WANDB_INIT_TIMEOUT": "7", "WANDB__FILE_STREAM_TRANSMIT_INTERVAL": "9"})
    assert not {"init_timeout", "x_file_stream_transmit_interval"} & left.keys()


@pytest.mark.parametrize("world", [{"WANDB_DISABLED": "true"}, {"WANDB_MODE": "disabled"}])
def test_disabled_is_disabled(server: Server, world: dict[str, str]) -> None:
    """Nothing is sent, and nothing waits to be."""
    train('run = init(); run.log({"loss": 1.0}); end(run)', environ(server, **world))
    assert server.runs == {} and not server.asked
    assert not Path("runs/tiny-lm/run/files/wandb").exists()


def test_a_picture_that_is_none_holds_nothing_up(tmp_path: Path) -> None:
    """What Pillow cannot read, a drawing or a broken file, is shown as a page: as an error it would be retried forever."""
    shown = import_module("chiplog.sinks.wandb.rows").image
    for name, media, data in (
        ("a.svg", "image/svg+xml", b"<svg/>"),
        ("b.png", "image/png", b"\x89PNG\r\n\x1a\nbroken"),
    ):
        (tmp_path / name).write_bytes(data)
        page = shown(records.File(0, 0, "x", name, media, caption="<c>"), tmp_path)
        assert f"data:{media};base64,{base64.b64encode(data).decode()}" in page.html and "&lt;c&gt;" in page.html


# -- what the tests share ----------------------------------------------------------------------------------------------


def journal(run: Path) -> list[records.AnyRecord]:
    import chiplog

    return list(chiplog.read(run).records())


def delivered(run: Path) -> int:
    try:
        return int(msgspec.json.decode((run / "cursors" / "wandb.json").read_bytes())["state"]["rows"])
    except (OSError, KeyError, msgspec.MsgspecError):
        return 0
