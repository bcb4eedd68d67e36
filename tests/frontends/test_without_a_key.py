"""Every front end where W&B is asked for and has no key: the reason is said once, and the end waits for nothing."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.wandb_runs import environ

pytestmark = pytest.mark.timeout(120)

SOON = 5.0  # s

TRAININGS = {
    "kempnerforge": """
        from types import SimpleNamespace as N
        from chiplog.frontends.kempnerforge import MetricsConfig, MetricsTracker
        model = N(dim=256, n_layers=4, n_heads=4, vocab_size=1000, max_seq_len=128, ffn_hidden_dim=768)
        config = N(metrics=MetricsConfig(enable_wandb=True, log_interval=1), model=model, train=N(seq_len=128))
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        for step in range(1, 4):
            tracker.start_step()
            tracker.end_step(step, 1.0, 1.0, 1e-3, 1000)
        end = tracker.close
    """,
    "surogate": """
        from chiplog.frontends.surogate import training_logger_context
        context = training_logger_context({"report_to": "wandb", "output_dir": "out"})
        logger = context.__enter__()
        for step in range(3):
            logger.log_step(step, step / 3, 100, 10, 1.0, 2.0, 1e-3)
        end = lambda: context.__exit__(None, None, None)
    """,
    "tunix": """
        from chiplog.frontends.tunix import metrics_logger
        options = metrics_logger.MetricsLoggerOptions(log_dir="board", project_name="p", run_name="r")
        logger = metrics_logger.MetricsLogger(options)
        for step in range(3):
            logger.log("p", "loss", 1.0, metrics_logger.Mode.TRAIN, step)
        end = logger.close
    """,
    "ezpz": """
        from chiplog.frontends import ezpz
        history = ezpz.History(backends="wandb", project_name="p")
        for step in range(3):
            history.update({"loss": 1.0, "iter": step})
        end = history.tracker.finish
    """,
}
TIMED = """
import time
began = time.monotonic()
end()
print("took", time.monotonic() - began)
"""


@pytest.mark.parametrize("name", TRAININGS)
def test_the_reason_is_said_once_and_the_end_is_soon(name: str) -> None:
    """No key in the environment, none in a file, and nobody to ask."""
    world = environ(None)
    del world["WANDB_MODE"]
    Path("train.py").write_text(textwrap.dedent(TRAININGS[name]) + TIMED)
    done = subprocess.run(
        [sys.executable, "train.py"],
        env=world,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert said.count("WANDB_API_KEY") == 1, said
    assert float(done.stdout.rpartition("took ")[2]) < SOON
