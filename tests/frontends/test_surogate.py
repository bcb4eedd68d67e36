"""Surogate's logger: its calls, its callback, its routers, and what becomes of mistakes."""

from __future__ import annotations

import io
import json

import pytest

import chiplog
from chiplog.core.identity import Identity
from chiplog.frontends.surogate import GPUUtilInfo, LogVerbosity, RouterStats, TrainingRunLogger
from chiplog.metrics.moe import Router
from tests.frontends.surogate_logs import H100, STEP, everything, read


def test_41_an_option_that_is_no_plain_value(logger):
    """Named, at the door."""
    with pytest.raises(TypeError, match="Unsupported option type for key: x"):
        logger.log_options({"x": [1]})


@pytest.mark.parametrize(("counts", "wanted"), [
    ([4, 4, 4, 4], {"load_imbalance": 1.0, "expert_utilization": 1.0, "load_cv": 0.0, "max_expert_fraction": 0.25}),
    ([16, 0, 0, 0], {"load_imbalance": 4.0, "expert_utilization": 0.25, "load_cv": 1.7320508, "max_expert_fraction": 1.0}),
])  # fmt: skip
def test_45_the_stats_of_a_trainer(counts, wanted):
    """From counts, through `get_moe_stats`."""
    trainer = RouterStats()
    trainer.observe(Router(counts))
    found = trainer.get_moe_stats(full=True)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert found["valid"] is True


def test_a_dense_model_has_no_stats(logger):
    """Zeros, and `valid` False; of a trainer and of a logger."""
    dense = {"aux_loss": 0.0, "z_loss": 0.0, "expert_utilization": 0.0, "load_imbalance": 0.0, "valid": False}
    assert RouterStats().get_moe_stats() == logger.get_moe_stats() == dense
    logger.log_moe_stats(1, 0.0234, 0.0012, 0.9375, 1.45)
    assert logger.get_moe_stats() == {
        "aux_loss": 0.0234, "z_loss": 0.0012, "expert_utilization": 0.9375, "load_imbalance": 1.45, "valid": True,
    }  # fmt: skip


def test_the_callback_gets_every_line_at_once(tmp_path):
    """Each as it is in the file, on this thread, before the call returns."""
    got = []
    made = TrainingRunLogger(tmp_path / "log.json", callback=got.append, verbosity=LogVerbosity.SILENT)
    assert made._callback == got.append
    made.log_step(1, *STEP)
    assert json.loads(got[0])["loss"] == 2.3356 and got[0].startswith("  {")
    everything(made)
    made.close()
    assert [json.loads(line) for line in got] == read(tmp_path / "log.json")


def test_12_a_callback_that_raises_disturbs_nobody(tmp_path, capsys):
    """Training goes on, the file has the step, one line says so."""

    def fails(line):
        raise ConnectionError("no wind")

    with TrainingRunLogger(tmp_path / "log.json", callback=fails, verbosity=LogVerbosity.SILENT) as made:
        for step in range(7):
            made.log_step(step, *STEP)
    assert len(read(tmp_path / "log.json")) == 7
    assert capsys.readouterr().err.count("no wind") == 1


def test_two_loggers_and_a_run_of_ones_own(tmp_path):
    """None ends another."""
    own = chiplog.init("p", sinks="none", dir=tmp_path)
    first, second = (TrainingRunLogger(tmp_path / f"{n}.json", verbosity=LogVerbosity.SILENT) for n in range(2))
    assert chiplog.run is own
    for made in (first, second):
        made.log_step(1, *STEP)
    chiplog.log({"loss": 1.0})
    for made in (first, second):
        made.close()
    own.finish()
    assert len(read(tmp_path / "0.json")) == len(read(tmp_path / "1.json")) == 1
    assert chiplog.read(own.dir).series("loss").values.tolist() == [1.0]


def test_every_number_of_a_step_may_be_named(logger, tmp_path):
    """As by its place, in all three calls."""
    row = dict(zip(("epoch", "step_tokens", "duration_ms", "norm", "loss", "lr"), STEP, strict=True))
    logger.log_step_kd(step=1, **row, kd_loss=0.5)
    logger.log_step_moe(2, *STEP, 0.1, moe_z_loss=0.2, moe_load_imbalance=1.5)
    logger.flush()
    kd, moe = read(tmp_path / "log.json")
    assert (kd["step"], kd["loss"], kd["kd_loss"]) == (1, STEP[4], 0.5)
    assert list(moe)[-3:] == ["moe_aux_loss", "moe_z_loss", "moe_load_imbalance"] and moe["moe_z_loss"] == 0.2


def test_a_dense_step_that_names_routers_is_dense(logger):
    """A training loop may pass None for what its model does not have."""
    logger.log_step(1, *STEP, moe_aux_loss=None, moe_z_loss=None, moe_load_imbalance=None)
    assert list(logger.get_moe_stats().values()) == [0.0, 0.0, 0.0, 0.0, False]


def test_routers_by_the_names_of_the_documented_call(logger, tmp_path):
    """`utilization` and `imbalance`, which the record spells out."""
    logger.log_moe_stats(step=1, aux_loss=0.1, z_loss=0.2, utilization=0.9, imbalance=1.5)
    logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert list(record.values())[3:] == [0.1, 0.2, 0.9, 1.5]
    assert list(logger.get_moe_stats().values()) == [0.1, 0.2, 0.9, 1.5, True]


def test_what_is_logged_is_watched(tmp_path):
    """Norm and loss that spike or are no numbers, and with all alerts a pace that drops."""
    with TrainingRunLogger(tmp_path / "log.json", verbosity=-2, alerts="all") as made:
        for step in range(100):
            made.log_step(step, 0.1, 1000, 10 if step < 50 else 40, 1.0 + step % 5 / 100, 9 - step / 100, 1e-4)
        made.log_step(100, 0.1, 1000, 40, 50.0, 8.0, 1e-4)
        made.log_step(101, 0.1, 1000, 40, float("nan"), 8.0, 1e-4)
    told = [alert.title for alert in chiplog.read(made.run.dir).records("alert")]
    assert told == ["train/tokens_per_second dropped to 25%", "train/norm spikes: 50", "train/norm is nan"]


def test_values_of_any_library(logger, tmp_path):
    """Numpy and torch scalars are the numbers that they are."""
    import numpy
    import torch

    logger.log_step(numpy.int64(3), numpy.float32(0.5), 16384, 156, torch.tensor(0.25), torch.tensor(2.0), 2e-4)
    logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert (record["step"], record["epoch"], record["norm"], record["loss"]) == (3, 0.5, 0.25, 2.0)


def test_another_rank_writes_nothing(tmp_path, monkeypatch):
    """No file, no console, no callback."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    got, stream = [], io.StringIO()
    with TrainingRunLogger(tmp_path / "log.json", callback=got.append, stream=stream) as made:
        everything(made)
    assert not (tmp_path / "log.json").exists() and got == [] and stream.getvalue() == ""


def test_a_gpu_info_has_these_fields():
    """Readable, writable; a wrong one is named."""
    info = GPUUtilInfo(clock=1)
    info.power = 2
    assert (info.clock, info.power, info.fan, info.throttle_reason) == (1, 2, 0, "")
    with pytest.raises(TypeError, match="no 'clocks'"):
        GPUUtilInfo(clocks=1)


@pytest.mark.parametrize(("call", "words"), [
    (lambda made: made.log_moe_stats(1, *range(11)), "there are 10 numbers of a router, not 11"),
    (lambda made: made.log_step(1, 2), "missing 5 required positional arguments"),
    (lambda made: made.log_step_moe(1, 2), "missing 5 required positional arguments"),
    (lambda made: made.log_step_kd(1, *STEP, 0.5, 0.5), "a step has 7 numbers, then at most kd_loss; here are 9"),
    (lambda made: made.log_step("a", None, None, "x", [], {}, object()), "a step is a number, not 'a'"),
    (lambda made: made.log_gpu_state(1, 0, None), None),
    (lambda made: made.log_allocator({"weights": 5}), "AttributeError"),
    (lambda made: made.log_sol_estimate("a", 1, 2, device=H100), "TypeError"),
    (lambda made: made.set_expected_time_per_token(object()), "give nanoseconds a token instead"),
    (lambda made: made.set_training_tokens("many"), "ValueError"),
])  # fmt: skip
def test_a_mistake_never_reaches_the_training(logger, capsys, call, words):
    """It is said, once, and the next call is as good as ever."""
    for _ in range(2):
        call(logger)
    said = capsys.readouterr().err
    assert words is None or said.count(words) == 1
    logger.log_step(9, *STEP)
    logger.close()
    assert read("log.json")[-1]["step"] == 9


def test_a_row_is_not_lost_for_one_bad_value(logger):
    """The rest of it is kept, and so is what the value was, as text."""
    logger.log_step(1, 0.5, "many", 156, 0.1, 2.0, 2e-4)
    logger.close()
    (record,) = read("log.json")
    assert (record["loss"], record["step_tokens"]) == (2.0, None)
    assert [text.text for text in chiplog.read(logger.run.dir).records(kind="text")] == ["many"]


def test_the_identity_follows_the_path(tmp_path):
    """Two paths are two runs."""
    a, b = (TrainingRunLogger(tmp_path / name / "log.json", verbosity=-2) for name in "ab")
    assert a.run.id != b.run.id and isinstance(a.run.identity, Identity)
    a.close(), b.close()
