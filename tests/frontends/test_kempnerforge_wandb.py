"""The KempnerForge front end and W&B's own SDK, which talks to an endpoint that speaks its API."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sinks.wandb_server import Server

pytestmark = pytest.mark.timeout(300)

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

def train(config, first, last):
    tracker = MetricsTracker(config, gpu_peak_tflops=989)
    tracker.init_backends(config)
    for step in range(first, last):
        tracker.start_step()
        tracker.end_step(step, float(step), 1.0, 1e-3, 1000)
        assert config.metrics.wandb_run_id, "filled before the first logged step returns"
    tracker.close()
    assert "wandb" not in sys.modules, "it is the relay's business"
    print(config.metrics.wandb_run_id)
"""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.weather = made.stream_weather = None
    made.stop()


def script(code: str, server: Server | None) -> subprocess.CompletedProcess[str]:
    """Run a training script, in a world with the endpoint in it or without a key."""
    here = str(Path.cwd())
    world = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "WB_"))}
    world |= {"HOME": here, "WANDB_DATA_DIR": here, "WANDB_CACHE_DIR": here}
    if server is not None:
        world |= {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "0123456789abcdef" * 2 + "00000000"}
    Path("train.py").write_text(PRELUDE + textwrap.dedent(code))
    return subprocess.run(
        [sys.executable, "train.py"], env=world, capture_output=True, text=True, timeout=150, check=True
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


def test_a_run_that_somebody_else_began_goes_on_behind_its_rows(server: Server) -> None:
    """Its id need not be a directory name of ours, and none of our rows is taken for one of its own."""
    script('train(job(wandb_run_id="Old_Run"), 1, 3)', server)
    Path("runs").rename("elsewhere")
    script('train(job(wandb_run_id="Old_Run"), 3, 5)', server)
    assert list(server.runs) == ["Old_Run"]
    assert server.runs["Old_Run"].series("train/loss") == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_deleted_run_is_followed_by_a_fresh_one(server: Server) -> None:
    """Nothing crashes, and the rows are there; the SDK asks for as long as it may, a minute if nobody says less."""
    server.delete("old")
    Path("chiplog.toml").write_text("[sinks.wandb.settings]\ninit_timeout = 12\n")
    done = script('train(job(wandb_run_id="old"), 1, 3)', server)
    (remote,) = server.runs.values()
    assert remote.id == done.stdout.splitlines()[-1] == "old-2" and remote.series("train/loss") == [(1, 1), (2, 2)]


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
    assert remote.project == "alone"
    assert (remote.series("train/loss"), remote.series("eval/loss")) == ([(1, 2.5)], [(1, 3.5)])
