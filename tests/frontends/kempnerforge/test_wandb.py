"""The KempnerForge front end and W&B's own SDK, which talks to an endpoint that speaks its API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chiplog import read
from tests.sinks.wandb.server import Remote, Server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[3]
KEYS = {
    "train/loss", "train/grad_norm", "train/lr", "train/tokens_per_sec", "train/mfu", "train/step_time_sec",
    "gpu/allocated_gb", "gpu/peak_gb", "gpu/reserved_gb", "gpu/mem_utilization",
    "smoothed/loss", "smoothed/tokens_per_sec", "smoothed/mfu", "smoothed/step_time",
}  # fmt: skip
PRELUDE = """
import sys
from types import SimpleNamespace as N
from chiplog.frontends.kempnerforge import MetricsConfig, MetricsTracker, WandBBackend

def job(**metrics):
    model = N(dim=256, n_layers=4, n_heads=4, vocab_size=1000, max_seq_len=128, ffn_hidden_dim=768)
    return N(metrics=MetricsConfig(enable_wandb=True, log_interval=1, **metrics), model=model, train=N(seq_len=128))

def run(config, first, last):
    tracker = MetricsTracker(config, gpu_peak_tflops=989)
    tracker.init_backends(config)
    for step in range(first, last):
        tracker.start_step()
        tracker.end_step(step, float(step), 1.0, 1e-3, 1000)
        assert config.metrics.wandb_run_id, "filled before the first logged step returns"
    tracker.close()
    print(config.metrics.wandb_run_id)

def train(config, first, last):
    run(config, first, last)
    assert "wandb" not in sys.modules, "it is the relay's business"
"""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.weather = made.stream_weather = None
    made.stop()


def world_of(server: Server | None) -> dict[str, str]:
    here = str(Path.cwd())
    world = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "WB_"))}
    world["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), world.get("PYTHONPATH")]))
    world |= {"HOME": here, "WANDB_DATA_DIR": here, "WANDB_CACHE_DIR": here, "WANDB_ERROR_REPORTING": "false"}
    if server is not None:
        world |= {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "0123456789abcdef" * 2 + "00000000"}
    return world


def script(code: str, server: Server | None) -> subprocess.CompletedProcess[str]:
    """Run a training script, in a world with the endpoint in it or without a key."""
    Path("train.py").write_text(PRELUDE + textwrap.dedent(code))
    return subprocess.run(
        [sys.executable, "train.py"], env=world_of(server), capture_output=True, text=True, timeout=150, check=True
    )


def test_a_resumed_run_goes_on_in_the_same_chart(server: Server) -> None:
    """Check 13: the id is filled before the first step returns, and with it the chart goes on."""
    first = script('train(job(wandb_project="My Project", wandb_run_name="7b-debug"), 1, 4)', server)
    run_id = first.stdout.splitlines()[-1]
    (remote,) = server.runs.values()
    assert (remote.id, remote.project, remote.name) == (run_id, "My Project", "7b-debug")
    rows = [row for row in remote.rows if "train/loss" in row]
    assert all(row.keys() - {"step"} == KEYS for row in rows)
    script(f'train(job(wandb_project="My Project", wandb_run_id="{run_id}"), 4, 6)', server)
    assert list(server.runs) == [run_id]
    assert remote.series("train/loss") == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]
    assert [json.loads(line)["_step"] for line in remote.lines] == list(range(5)), "W&B's own step counts rows"
    assert {"metrics", "model", "train", "environment"} <= remote.values().keys()


def test_a_run_that_somebody_else_began_goes_on_behind_its_rows(server: Server) -> None:
    """Its id need not be a directory name of ours, and none of our rows is taken for one of its own."""
    script('train(job(wandb_run_id="Old_Run"), 1, 3)', server)
    Path("runs").rename("elsewhere")
    script('train(job(wandb_run_id="Old_Run"), 3, 5)', server)
    assert list(server.runs) == ["Old_Run"]
    assert server.runs["Old_Run"].series("train/loss") == [(1, 1), (2, 2), (3, 3), (4, 4)]


AFTER = """import wandb
wandb.setup(wandb.Settings(reinit="finish_previous", silent=True))
wandb.init(project="own", mode="offline")
"""


@pytest.mark.parametrize("begin", ["", "import wandb\n", AFTER], ids=["relay", "here", "after another run"])
def test_a_deleted_run_is_followed_by_a_fresh_one(server: Server, begin: str) -> None:
    """Its id is in the config for the checkpoint, so the next resume goes on there, and nothing is warned about."""
    server.delete("old")
    run_id = "old"
    for first in (1, 3):
        done = script(begin + f'run(job(wandb_run_id="{run_id}"), {first}, {first + 2})', server)
        assert "WARNING" not in done.stderr and "not complete" not in done.stderr, done.stderr
        run_id = done.stdout.splitlines()[-1]
        (remote,) = server.runs.values()
        assert remote.id == run_id == "old-2"
    assert [row["train/loss"] for row in remote.rows if "train/loss" in row] == [1, 2, 3, 4]


class Mute(Server):
    """Takes the rows of a run, and never says that it has them."""

    def _bucket(self, run: Remote) -> dict[str, Any]:
        return {**super()._bucket(run), "historyLineCount": 0}


def test_rows_that_are_not_confirmed_are_said_to_be_just_that() -> None:
    """Nothing has failed, so no failure is reported: how many rows there are, and what brings them."""
    server = Mute()
    try:
        done = script(
            """
            from chiplog.frontends.kempnerforge import backends
            backends.PATIENCE = 5.0
            train(job(), 1, 4)
            """,
            server,
        )
    finally:
        server.stop()
    assert "WandB init failed" not in done.stderr and "is not complete" not in done.stderr
    assert done.stderr.count("W&B has not confirmed 3 rows within 5 s; `chiplog sync ") == 1, done.stderr


def test_wandb_without_a_key_is_not_called_imported_late() -> None:
    """It was imported on the first line, so one warning is about the key; the end waits for nothing, and claims no wait."""
    done = script("import wandb\nrun(job(), 1, 4)", None)
    assert done.stderr.count("WandB init failed: ") == 1 and "WANDB_API_KEY" in done.stderr
    assert "imported after" not in done.stderr
    assert done.stderr.count("W&B has not confirmed 3 rows; `chiplog sync ") == 1, done.stderr


@pytest.mark.parametrize("where", ["relay", "here"])
def test_the_variable_for_a_runs_id_decides_where_no_checkpoint_does(server: Server, where: str) -> None:
    """As W&B's own client has it; the config holds that id from the first row on."""
    begin = "import wandb\n" if where == "here" else ""
    name = 'import os; os.environ["WANDB_RUN_ID"] = "chosen"\n'
    done = script(f"{name}{begin}run(job(), 1, 3)", server)
    assert list(server.runs) == ["chosen"] and done.stdout.splitlines()[-1] == "chosen"
    script(f'{name}{begin}run(job(wandb_run_id="kept"), 1, 3)', server)
    assert list(server.runs) == ["chosen", "kept"]


def test_a_wandb_that_cannot_be_begun_is_one_warning() -> None:
    """Check 11: word for word, once, on stderr; the training is not kept."""
    done = script(
        """
        config = job()
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        for step in range(1, 7):
            tracker.start_step()
            assert tracker.end_step(step, 1.0, 1.0, 1e-3, 1000) is not None
        import time
        deadline = time.monotonic() + 60
        while tracker._backends[0]._run is not False and time.monotonic() < deadline:
            time.sleep(0.05)
        assert tracker._backends[0]._run is False
        tracker.close()
        """,
        None,
    )
    assert done.stderr.count("WandB init failed: ") == 1 and "WANDB_API_KEY" in done.stderr
    assert "WandB" not in done.stdout


def test_the_backend_alone(server: Server) -> None:
    """A config is all it needs."""
    done = script(
        """
        config = MetricsConfig(wandb_project="alone")
        backend = WandBBackend(config)
        assert backend._run is None and config.wandb_run_id == ""
        backend.log({"train/loss": 2.5}, step=1)
        backend.log({"eval/loss": 3.5}, 1)
        backend.close()
        print(config.wandb_run_id)
        """,
        server,
    )
    remote = server.runs[done.stdout.splitlines()[-1]]
    assert (remote.project, remote.name) == ("alone", ""), "W&B makes a name"
    assert (remote.series("train/loss"), remote.series("eval/loss")) == ([(1, 2.5)], [(1, 3.5)])


HOOKS = """
import wandb

config = job(wandb_project="beside", wandb_run_name="7b-debug")
tracker = MetricsTracker(config, gpu_peak_tflops=989)
tracker.init_backends(config)
assert wandb.run is None
for step in range(1, 4):
    tracker.start_step()
    tracker.end_step(step, float(step), 1.0, 1e-3, 1000)
    if wandb.run is not None:  # as a hook of the original does
        wandb.log({"hook/norm": step / 10}, step=step)
assert wandb.run is tracker._backends[0]._run and wandb.run.id == config.metrics.wandb_run_id
open("notes.txt", "w").write("kept")
wandb.save("notes.txt")
tracker.log_eval({"eval/loss": 2.5}, 3)
tracker.close()
assert wandb.run is None
print(config.metrics.wandb_run_id)
"""


def test_a_script_that_uses_wandb_itself_has_the_real_run(server: Server) -> None:
    """`wandb.log` joins the tracker's rows at the same step, and `wandb.save`d files are there after `close()`."""
    done = script(HOOKS, server)
    (remote,) = server.runs.values()
    assert (remote.id, remote.project, remote.name) == (done.stdout.splitlines()[-1], "beside", "7b-debug")
    rows = [row for row in remote.rows if "train/loss" in row]
    assert [(row["train/loss"], row["hook/norm"]) for row in rows] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert [json.loads(line)["_step"] for line in remote.lines] == [1, 2, 3]
    assert rows[0].keys() == {*KEYS, "hook/norm"} and rows[2]["eval/loss"] == 2.5
    assert remote.files["notes.txt"] == b"kept" and remote.exit == 0
    assert f"WandB initialized: {server.url}" in done.stdout
    again = script(
        f"""
        import wandb
        config = job(wandb_project="beside", wandb_run_id="{remote.id}")
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        for step in (3, 4):  # a step that W&B has already, and the next
            tracker.start_step()
            tracker.end_step(step, float(step), 1.0, 1e-3, 1000)
        tracker.close()
        """,
        server,
    )
    assert list(server.runs) == [remote.id], again.stderr
    assert here(remote) == [(1, 1), (2, 2), (3, 3), (4, 4)], "W&B keeps what it has"
    assert again.stderr.count("step 3 is before W&B's newest") == 1, again.stderr


def test_sync_completes_a_client_that_was_killed_with_its_process(server: Server) -> None:
    """Rows that W&B lacks, at their training steps and once; the run is one."""
    code = """
    import os, time, wandb
    config = job(wandb_project="beside")
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    for step in range(5, 65, 5):
        tracker.start_step()
        tracker.end_step(step, float(step), 1.0, 1e-3, 1000)
        if step == 30:
            while not Path("seen").exists():
                time.sleep(0.05)
    os.kill(os.getpid(), 9)
    """
    arrived = watching(lambda: [len(one.lines) >= 5 for one in server.runs.values()] == [True], Path("seen"))
    with pytest.raises(subprocess.CalledProcessError), arrived:
        script("from pathlib import Path\n" + textwrap.dedent(code), server)
    (remote,) = server.runs.values()
    before = len(remote.lines)
    assert 5 <= before < 12
    done = chiplog_sync(server)
    assert done.returncode == 0, done.stdout + done.stderr
    assert here(remote) == [(step, step) for step in range(5, 65, 5)]
    assert list(server.runs) == [remote.id] and remote.exit == 1


@contextmanager
def watching(condition: Callable[[], bool], mark: Path) -> Iterator[None]:
    """Touch a file once a condition holds, while something else runs."""
    thread = threading.Thread(target=lambda: (wait_for(condition, 100), mark.touch()), daemon=True)
    thread.start()
    yield
    thread.join()


def chiplog_sync(server: Server) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chiplog", "sync", "latest"],
        env=world_of(server), capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip


def test_an_id_that_cannot_be_written_back_is_one_run_of_the_client(server: Server) -> None:
    """A frozen config in a script that imports W&B: one warning names the id."""
    done = script(
        """
        import wandb
        from tests.frontends.kempnerforge.test_names import Frozen
        config = job()
        config.metrics = Frozen()
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        for step in (1, 2, 3):
            tracker.start_step()
            tracker.end_step(step, float(step), 1.0, 1e-3, 1000)
        tracker.close()
        """,
        server,
    )
    (remote,) = server.runs.values()
    assert here(remote) == [(1, 1), (2, 2), (3, 3)]
    assert done.stderr.count("cannot be written to the config") == 1 and f"{remote.id!r}" in done.stderr


def here(remote: Remote) -> list[tuple[int, float]]:
    """(W&B's own step, loss) of every row of a client in the training's process."""
    rows = [json.loads(line) for line in remote.lines]
    return [(row["_step"], row["train/loss"]) for row in rows if "train/loss" in row]


def test_a_rollback_leaves_the_rows_that_wandb_has(server: Server) -> None:
    """Rows behind its newest are not sent again, which is one warning an episode; newer ones are at their own step."""
    done = script(
        """
        import wandb
        config = job()
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        def train(steps, offset):
            for step in steps:
                tracker.start_step()
                tracker.end_step(step, step + offset, 1.0, 1e-3, 1000)
        train(range(1, 6), 0.0)
        train((3, 4), 0.5)
        train(range(6, 10), 0.0)
        tracker.log_eval({"eval/loss": 2.5}, 7)
        train((10,), 0.0)
        tracker.close()
        """,
        server,
    )
    (remote,) = server.runs.values()
    assert here(remote) == [(step, step) for step in range(1, 11)]
    assert not any("eval/loss" in row for row in remote.rows)
    said = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert len(said) == 2, done.stderr
    assert "step 3 is before W&B's newest" in said[0] and "steps below 5 are not sent again" in said[0]
    assert "step 7 is before" in said[1] and all("the journal has them" in line for line in said)
    found = read(next(Path("runs/kempnerforge").iterdir()))
    assert found.series("eval/loss").steps.tolist() == [7]


@pytest.mark.parametrize("mistake", ['wandb_project="my project/sub"', 'wandb_run_id="abc/def"'])
def test_a_name_that_wandb_does_not_take_is_reported_and_not_waited_for(server: Server, mistake: str) -> None:
    """One line with W&B's reason; the end does not hope for it."""
    done = script(
        f"""
        import time
        from tests.support.waiting import wait_for
        config = job({mistake})
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        tracker.start_step()
        tracker.end_step(1, 1.0, 1.0, 1e-3, 1000)
        wait_for(lambda: tracker._backends[0]._run is False, 60)
        began = time.monotonic()
        tracker.close()
        print(time.monotonic() - began)
        """,
        server,
    )
    (line,) = done.stderr.splitlines()
    assert "WandB init failed: W&B does not start the run: " in line and "chiplog sync" in line, line
    assert float(done.stdout.splitlines()[-1]) < 5


def test_wandb_that_is_imported_later_is_warned_about(server: Server) -> None:
    """Its run is in the relay by then; one line says so and what to do, and the rows arrive."""
    code = """
        config = job()
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        for step in range(1, 5):
            tracker.start_step()
            tracker.end_step(step, float(step), 1.0, 1e-3, 1000)
            import wandb
        tracker.close()
        """
    done = script(code, server)
    assert done.stderr.count("wandb was imported after the first logged step") == 1
    (remote,) = server.runs.values()
    assert remote.series("train/loss") == [(step, step) for step in range(1, 5)]
    Path("chiplog.toml").write_text('relay = "thread"\n')
    done = script(code.replace("import wandb", "import wandb; assert wandb.run is not None"), server)
    assert done.stderr.count("wandb was imported after") == 0, "the run is here from the first row on"


def test_a_client_that_cannot_begin_says_why_and_leaves_it_to_the_relay(server: Server) -> None:
    """One warning with W&B's own words; the rows go through the relay, which goes on trying."""
    done = script(
        """
        import wandb
        def fail(**given):
            wandb.init = real
            raise RuntimeError("the quota is used up")
        real, wandb.init = wandb.init, fail
        config = job()
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        for step in (1, 2):
            tracker.start_step()
            assert tracker.end_step(step, float(step), 1.0, 1e-3, 1000) is not None
        assert tracker._backends[0]._run is False
        tracker.close()
        """,
        server,
    )
    assert done.stderr.count("WandB init failed: the quota is used up\n") == 1
    # The end does not wait long for what has failed once; the relay goes on without the trainer.
    wait_for(lambda: [run.series("train/loss") for run in server.runs.values()] == [[(1, 1), (2, 2)]], 120)
    wait_for(lambda: [run.exit for run in server.runs.values()] == [0], 120)


def test_the_reason_of_a_wandb_that_does_not_answer() -> None:
    """Said as soon as it is known, though the run has ended; then W&B gets five seconds, and not all of its time."""
    done = script(
        """
        import os
        os.environ |= {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": "0123456789abcdef" * 2 + "00000000"}
        from chiplog.frontends.kempnerforge import backends
        backends.PATIENCE = 300.0
        config = job()
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        tracker.start_step()
        tracker.end_step(1, 1.0, 1.0, 1e-3, 1000)
        import time
        known = []
        fail = tracker._lazy_run._fail
        tracker._lazy_run._fail = lambda why: (known.append(time.monotonic()), fail(why))
        tracker.close()
        assert time.monotonic() - known[0] < 15, "it was waited for"
        """,
        None,
    )
    (line,) = done.stderr.splitlines()  # in one line, and not reported twice
    reason = line.partition("WandB init failed: ")[2]
    assert reason and reason != "None" and "in use" not in reason, reason
