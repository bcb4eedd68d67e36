"""FLOPs, and setting up torch and services."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from chiplog.frontends import ezpz
from chiplog.frontends.ezpz.flops import (
    compute_mfu,
    estimate_model_flops,
    get_peak_flops,
    try_estimate,
    try_estimate_fake,
)


def test_one_process_on_a_cpu_is_set_up() -> None:
    assert ezpz.setup_torch() == 0 and ezpz.get_world_size() == 1 and not torch.distributed.is_initialized()


MLFLOW = """
import mlflow, os
from chiplog.frontends import ezpz

os.environ.update(RANK="1", WORLD_SIZE="2")
assert ezpz.setup_mlflow("p") is None
os.environ["RANK"] = "0"
run = ezpz.setup_mlflow("p", config={"a": {"b": 1}})
mlflow.end_run()
assert mlflow.get_run(run.info.run_id).data.params == {"config.a.b": "1"}
"""


def test_mlflow_begins_a_run(tmp_path: Path) -> None:
    """On rank 0 only; in a real local store."""
    environ = {
        **os.environ,
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    subprocess.run([sys.executable, "-c", MLFLOW], env=environ, cwd=tmp_path, check=True, timeout=110)


DOTENV = """
import mlflow, os, sys
from chiplog.frontends import ezpz

run = ezpz.setup_mlflow(config={"lr": 0.1})
assert run is not None
experiment = mlflow.get_experiment(run.info.experiment_id).name
assert experiment == "by the project", experiment
mlflow.end_run()
"""


class Tracking(BaseHTTPRequestHandler):
    """As much of a tracking server as it takes to begin a run; it remembers the keys it was shown."""

    keys: ClassVar[set[str | None]] = set()

    def _answer(self) -> None:
        self.keys.add(self.headers.get("X-API-Key"))
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        info = {
            "run_id": "r1",
            "run_uuid": "r1",
            "experiment_id": "1",
            "status": "RUNNING",
            "lifecycle_stage": "active",
        }
        info |= {"artifact_uri": "mlflow-artifacts:/1", "start_time": 1}
        experiment = {"experiment_id": "1", "name": "by the project", "lifecycle_stage": "active"}
        answer = {"experiment": {**experiment, "artifact_location": "x"}, "run": {"info": info, "data": {}}}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, *_: Any) -> None:
        pass


def test_credentials_of_mlflow_come_from_files(tmp_path: Path) -> None:
    """The person's first, then the project's over them, then what is set already over both."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Tracking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        uri = f"http://127.0.0.1:{server.server_address[1]}"
        home = tmp_path / "home"
        home.mkdir()
        (home / ".amsc.env").write_text(
            f"AMSC_API_KEY=secret\nMLFLOW_TRACKING_URI={uri}\nMLFLOW_EXPERIMENT_NAME=mine\n"
        )
        (tmp_path / ".env").write_text("MLFLOW_EXPERIMENT_NAME='by the project'\n")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW_", "AMSC_"))}
        environ = {**kept, "HOME": str(home), "MLFLOW_DISABLE_TELEMETRY": "true"}
        subprocess.run([sys.executable, "-c", DOTENV], env=environ, cwd=tmp_path, check=True, timeout=110)
    finally:
        server.shutdown()
        server.server_close()
    assert Tracking.keys == {"secret"}


def test_a_name_that_is_not_about_metrics_leads_to_ezpz() -> None:
    """What it says is what to do."""
    with pytest.raises(AttributeError, match=r"import ezpz; ezpz\.get_logger"):
        _ = ezpz.get_logger


def test_small_names_of_a_history() -> None:
    history = ezpz.History(keys=["loss"])
    history.update({"loss": 1.0})
    assert history.keys == ["loss"] and history.run_id == history.run.id
    assert history.history_to_dict() == {"loss": [1.0]}
    assert ezpz.utils.is_memory_metric_key("train/mem_alloc")


def test_calls_of_a_function_are_timed(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """In the run as events, so that no row comes of it; shown where that is asked for."""
    history = ezpz.History()

    @ezpz.timeitlogit(rank=0, verbose=True)
    def work() -> int:
        return 3

    with caplog.at_level(logging.INFO, "chiplog.ezpz"):
        assert work() == 3
    (name,) = history.history
    assert name.startswith("timeit/") and name.endswith("work") and "work took 0.0" in caplog.text
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\d{6}", ezpz.get_timestamp())


# -- operations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flops", "seconds", "device", "expected"),
    [(1e14, 0.5, "A100", 64.1025641), (1e14, 0.0, "A100", 0.0), (0.0, 1.0, "A100", 0.0), (1e14, 0.5, "cpu", 0.0)],
)
def test_mfu(flops: float, seconds: float, device: str, expected: float) -> None:
    assert compute_mfu(flops, seconds, device_name=device) == pytest.approx(expected)


def test_mfu_of_a_peak_that_is_given() -> None:
    assert compute_mfu(1e12, 1.0, peak_flops=2e12) == 50.0


def test_an_unknown_device_has_no_peak() -> None:
    """It is said once, and never guessed."""
    with pytest.warns(UserWarning, match="'Abacus 9'"):
        assert get_peak_flops("Abacus 9") is None
    assert get_peak_flops("Abacus 9") is None


def test_a_linear_layer_is_counted() -> None:
    model = torch.nn.Linear(128, 64)
    assert estimate_model_flops(model, (1, 128), backward=False) == 16384
    assert estimate_model_flops(model, (1, 128)) == 32768


class Answer:
    """What many language models return: a loss where they were given labels, and the logits."""

    def __init__(self, logits: torch.Tensor, loss: torch.Tensor | None = None) -> None:
        self.logits, self.loss = logits, loss


class Slotted:
    __slots__ = ("logits", "loss")

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits, self.loss = logits, None


@pytest.mark.parametrize(
    "wrap",
    [
        lambda logits: logits,
        Answer,
        Slotted,
        lambda logits: Answer(logits, logits.sum()),
        lambda logits: {"loss": None, "logits": logits},
        lambda logits: (logits, None),
    ],
)
def test_whatever_a_model_returns_is_counted(wrap: Any) -> None:
    """Forward and backward, the same for all: 2 and 4 operations a weight and token; without its loss too."""
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10))
    model.register_forward_hook(lambda _module, _args, output: wrap(output))
    assert try_estimate(model, (2, 8)) == try_estimate_fake(model, (2, 8)) == (2 + 4) * 4 * 10 * 2 * 8
    assert try_estimate(model, (2, 8), backward=False) == 2 * 4 * 10 * 2 * 8


class Refuses(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 8)

    def forward(self, _: Any) -> Any:
        raise RuntimeError("no")


def test_a_model_that_cannot_be_run_is_estimated_from_its_weights() -> None:
    """6 operations a weight and token."""
    assert try_estimate(Refuses(), (2, 16)) == 6 * 136 * 2 * 16 == 26112


def test_without_computing_nothing_is_guessed() -> None:
    assert try_estimate_fake(Refuses(), (2, 16)) == 0


def test_what_cannot_be_known_is_zero(caplog: pytest.LogCaptureFixture) -> None:
    assert try_estimate(object(), (2, 16)) == 0 and "cannot determine the FLOPs of object" in caplog.text


def test_counting_leaves_everything_as_it_was() -> None:
    """Gradients, running statistics and random numbers."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    model(torch.ones(2, 4)).sum().backward()
    before = (
        [weight.grad.clone() for weight in model.parameters()],
        model[1].running_mean.clone(),
        torch.get_rng_state(),
    )
    assert try_estimate(model, (2, 4)) > 0
    assert all(torch.equal(a, b.grad) for a, b in zip(before[0], model.parameters(), strict=True))
    assert torch.equal(before[1], model[1].running_mean) and torch.equal(before[2], torch.get_rng_state())
