"""Surogate's logger: its calls, its callback, its routers, and what becomes of mistakes."""

from __future__ import annotations

import io
import json
import math

import pytest

import chiplog
from chiplog.frontends.surogate import GPUUtilInfo, LogVerbosity, RouterStats, TrainingRunLogger
from chiplog.metrics.moe import Router
from tests.frontends.surogate.logs import H100, STEP, everything, read


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


def test_a_number_of_routers_that_nobody_knows_is_nan(logger):
    """Not a zero that looks like a collapse: of a logger and of a trainer."""
    logger.log_step(1, *STEP, moe_aux_loss=0.1, moe_z_loss=0.2, moe_load_imbalance=1.5)
    stats = logger.get_moe_stats()
    assert math.isnan(stats.pop("expert_utilization"))
    assert stats == {"aux_loss": 0.1, "z_loss": 0.2, "load_imbalance": 1.5, "valid": True}
    trainer = RouterStats()
    trainer.observe(Router([4, 4, 4, 4]))
    stats = trainer.get_moe_stats()
    assert math.isnan(stats["aux_loss"]) and math.isnan(stats["z_loss"]) and stats["expert_utilization"] == 1.0


def test_the_last_known_numbers_of_routers_stay(logger):
    """A step that says less of them makes no zeros of the others."""
    logger.log_moe_stats(2, 0.1, 0.2, 0.9, 1.2)
    logger.log_step_moe(3, 1.2, 1, 1, 0.1, 2.0, 1e-4, 0.5, 0.6, 1.7)
    logger.log_moe_stats(4, None, 0.3, None, 1.1)
    assert logger.get_moe_stats() == {
        "aux_loss": 0.5, "z_loss": 0.3, "expert_utilization": 0.9, "load_imbalance": 1.1, "valid": True,
    }  # fmt: skip


@pytest.mark.parametrize(("loss", "written"), [(None, "nan"), ("2.5", 2.5), ([2.5, 1.0], "nan")])
def test_a_step_whose_loss_is_not_a_number_is_a_step(loss, written, tmp_path):
    """On the console and in the file; its eval too."""
    shown = io.StringIO()
    with TrainingRunLogger(tmp_path / "log.json", stream=shown) as made:
        made.log_step(6, 0.1, 16384, None if loss is None else 156, 0.1, loss, 1e-4)
        made.log_eval(6, 0.1, 16384, 156, loss)
    step, evaluation = (
        one for one in json.loads((tmp_path / "log.json").read_text()) if one["log"] in ("step", "eval")
    )
    assert step["loss"] == evaluation["loss"] == written
    assert ":: step       6" in shown.getvalue() and ">> eval" in shown.getvalue()


def test_arguments_go_by_the_names_of_the_calls_and_of_the_tables(tmp_path):
    """The documented call has `tokens`, the tables `step_tokens`, `eval_tokens`, `gpu_util`; 5.0 is step 5."""
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
        made.log_step(5.0, 0.1, tokens=16384, duration_ms=156, norm=0.1, loss=2.0, lr=1e-4)
        made.log_eval(5, 0.1, tokens=32768, duration_ms=234, loss=2.0)
        made.log_gpu_state(5, 0, GPUUtilInfo(gpu_util=98, mem_util=85, throttle="", dram_free=1 << 30))
        made.log_allocator({"weights": {"device": 1}, "stack": {"stack": 123}})
    step, evaluation, gpu, memory = json.loads((tmp_path / "log.json").read_text())
    assert (step["step"], step["step_tokens"], evaluation["eval_tokens"]) == (5, 16384, 32768)
    assert isinstance(step["step"], int)
    assert (gpu["gpu_util"], gpu["mem_util"], gpu["dram_free"]) == (98, 85, 1 << 30)
    assert [one["name"] for one in memory["stats"]] == ["weights"]


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


def test_the_routers_of_a_step_by_their_places(logger, tmp_path, capsys):
    """`log_step` takes them behind its seven arguments, in the order of the record; one too many is reported."""
    for further in ((0.0234, 0.0012, 1.45), (0.0234, 0.0012, 1.45, 0.9375), (0.0234, 0.0012), tuple(range(11))):
        logger.log_step(1, *STEP, *further)
    three, four, two, ten = (
        {name: value for name, value in record.items() if name.startswith("moe_")}
        for record in read(tmp_path / "log.json")
    )
    assert three == {"moe_aux_loss": 0.0234, "moe_z_loss": 0.0012, "moe_load_imbalance": 1.45}
    assert four == {**three, "moe_expert_utilization": 0.9375}
    assert two == {"moe_aux_loss": 0.0234, "moe_z_loss": 0.0012} and list(ten.values()) == list(range(10))
    assert logger.get_moe_stats()["load_imbalance"] == 2
    assert capsys.readouterr().err.count("log_step: a step has 7 numbers, then at most moe_aux_loss, moe_z_loss") == 1


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
    """Norm and loss that spike or are not numbers, and with all alerts a pace that drops."""
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


def test_another_rank_writes_nothing(tmp_path, monkeypatch, capsys):
    """No file, no console, no callback; a mistake that all ranks make is reported by the first."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    got, stream = [], io.StringIO()
    with TrainingRunLogger(tmp_path / "log.json", callback=got.append, stream=stream) as made:
        everything(made)
        made.log_step(1, "x", 1, 1, 1.0, 1.0, 1.0)
        made.log_dataset(3)
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "log.json").exists() and got == [] and stream.getvalue() == ""


def test_a_gpu_info_has_these_fields():
    """Readable, writable; a wrong one is named."""
    info = GPUUtilInfo(clock=1)
    info.power = 2
    assert (info.clock, info.power, info.fan, info.throttle_reason) == (1, 2, 0, "")
    with pytest.raises(TypeError, match="no 'clocks'"):
        GPUUtilInfo(clocks=1)


@pytest.mark.parametrize(("call", "words"), [
    (lambda made: made.log_moe_stats(1, *range(11)), "routers have 10 numbers, not 11"),
    (lambda made: made.log_step(1, 2), "log_step: step_tokens, duration_ms, norm, loss and lr are missing; the rest is logged"),
    (lambda made: made.log_step_moe(1, 2), "log_step: step_tokens, duration_ms, norm, loss and lr are missing"),
    (lambda made: made.log_step(), "log_step: step, epoch, step_tokens, duration_ms, norm, loss and lr are missing; nothing is"),
    (lambda made: made.log_message(1), "log_message: msg is missing; nothing is logged"),
    (lambda made: made.log_step_kd(1, *STEP, 0.5, 0.5), "log_step_kd: a step has 7 numbers, then at most kd_loss; of these 9"),
    (lambda made: made.log_step(1, *STEP, loss=3.0), "log_step: loss is passed by position and by name; the positional one is logged"),
    (lambda made: made.log_message(1, "a", level=3), "log_message: there is no argument 'level'; the others are logged"),
    (lambda made: made.log_step("a", None, None, "x", [], {}, object()), "a step is a finite number, not 'a'"),
    (lambda made: made.log_gpu_state(1, 0, None), "log_gpu_state: gpu_util is None, which has none of clock, "),
    (lambda made: made.log_gpu_state(1, 0, {"clock": "fast", "fan": "1"}), "log_gpu_state: clock is 'fast', not a number; the rest"),
    (lambda made: made.log_gpu_model(5), "log_gpu_model: gpu is 5, which has none of id, name, "),
    (lambda made: made.log_gpu_model(), "log_gpu_model: gpu is None, which has none of id, name, "),
    (lambda made: made.log_dataset("train", 5), "log_dataset: train_loader is 'train', which has none of files, tokens, "),
    (lambda made: made.log_dataset("train", 5), "log_dataset: eval_loader is 5, which has none of files, tokens, "),
    (lambda made: made.log_dataset({"tokens": "many"}), "log_dataset: tokens is 'many', not a number; the rest is logged"),
    (lambda made: made.log_allocator({"weights": 5}), "log_allocator: the segment 'weights' is 5, not bytes by device, managed,"),
    (lambda made: made.log_allocator(5), "log_allocator: stats is 5, not segments by name; nothing is logged"),
    (lambda made: made.log_allocator({"weights": {"device": "x"}}), "log_allocator: device of 'weights' is 'x', not a number"),
    (lambda made: made.log_abs_maxes(1, 5), "log_abs_maxes: abs_maxes is 5, not numbers by name; nothing is logged"),
    (lambda made: made.log_cmd(5), "log_cmd: args is 5, not a list of strings; nothing is logged"),
    (lambda made: made.log_moe_stats(1, "x", 0.1), "log_moe_stats: aux_loss is 'x', not a number; the rest is logged"),
    (lambda made: made.log_sol_estimate("a", 1, 2, device=H100), "log_sol_estimate: blocks is 'a', not a number; nothing is logged"),
    (lambda made: made.log_sol_estimate(1, 1, 2, peaks=5), "log_sol_estimate: peaks is 5, not TFLOP/s by dtype"),
    (lambda made: made.log_sol_estimate(1, 1, 2, world_size=0), "log_sol_estimate: world_size is 0, not a number of devices"),
    (lambda made: made.set_expected_time_per_token(object()), "pass nanoseconds per token instead"),
    (lambda made: made.set_expected_time_per_token("soon"), "set_expected_time_per_token: expected is 'soon', not a number"),
    (lambda made: made.set_training_tokens("many"), "set_training_tokens: tokens is 'many', not a number; nothing is logged"),
])  # fmt: skip
def test_a_mistake_never_reaches_the_training(logger, capsys, call, words):
    """It is reported once, in a sentence, and the next call is as good as ever."""
    for _ in range(2):
        call(logger)
    said = capsys.readouterr().err
    assert said.count(words) == 1 and "Error" not in said
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


def test_the_path_is_not_the_identity(tmp_path):
    """Every logger is a run of its own, whose id begins with the name of the file; an id that is given is taken."""
    made = [TrainingRunLogger(tmp_path / name / "log.json", verbosity=-2) for name in "aab"]
    assert len({one.run.id for one in made}) == 3 and all(one.run.id.startswith("log-") for one in made)
    named = TrainingRunLogger(tmp_path / "c.json", verbosity=-2, id="mine")
    assert named.run.id == "mine" and named.run.project == "surogate"
    for one in (*made, named):
        one.close()
