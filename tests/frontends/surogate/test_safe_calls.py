"""Calls that are not quite the documented ones: what they leave in the file."""

from __future__ import annotations

import json

import pytest

import chiplog
from chiplog.frontends.surogate import TrainingRunLogger
from tests.frontends.surogate.logs import STEP, read

FIELDS = ("epoch", "step_tokens", "duration_ms", "norm", "loss", "lr")


@pytest.fixture
def record(logger, tmp_path):
    """Makes a call, and gives the one record that it left."""

    def make(call):
        call(logger)
        (found,) = read(tmp_path / "log.json")
        return found

    return make


def test_an_eval_may_have_more(record, logger):
    """By keyword: fields behind the documented ones, and series."""
    found = record(
        lambda made: made.log_eval(
            step=1, epoch=0.1, eval_tokens=10, duration_ms=1, loss=2.0, accuracy=0.5, lr="1e-4", split="test"
        )
    )
    assert list(found) == [
        "log",
        "time",
        "step",
        "epoch",
        "eval_tokens",
        "duration_ms",
        "loss",
        "accuracy",
        "lr",
        "split",
    ]
    assert (found["loss"], found["accuracy"], found["lr"], found["split"]) == (2.0, 0.5, 1e-4, "test")
    assert chiplog.read(logger.run.dir).series("eval/accuracy").values.tolist() == [0.5]


def test_routers_may_have_more(record):
    """Also behind the documented ones."""
    found = record(lambda made: made.log_moe_stats(1, 0.1, 0.2, 0.9, 1.5, dropped="0.25", layer="all"))
    assert list(found)[-2:] == ["dropped", "layer"] and (found["dropped"], found["layer"]) == (0.25, "all")


@pytest.mark.parametrize(("call", "wanted"), [
    (lambda made: made.log_step(1, *STEP, *range(11)), {"log": "step", **dict(zip(FIELDS, STEP, strict=True)), "moe_router_confidence": 9}),
    (lambda made: made.log_step_kd(1, *STEP, 0.5, 9), {"log": "step", "kd_loss": 0.5, "loss": STEP[4]}),
    (lambda made: made.log_step_moe(1, *STEP, *range(11)), {"log": "step", "moe_aux_loss": 0, "moe_router_confidence": 9}),
    (lambda made: made.log_eval(1, 0.1, 10, 1, 2.0, 3.0), {"log": "eval", "loss": 2.0}),
    (lambda made: made.log_moe_stats(1, *range(11)), {"log": "moe", "aux_loss": 0, "router_confidence": 9}),
    (lambda made: made.log_message(1, "a", "b"), {"log": "info", "message": "a"}),
], ids=["step", "kd", "moe step", "eval", "moe", "message"])  # fmt: skip
def test_too_many_values_cost_no_record(record, capsys, call, wanted):
    """The documented ones are logged; the others are reported once."""
    found = record(call)
    assert {name: found[name] for name in wanted} == wanted
    assert capsys.readouterr().err.count("left out") == 1


def test_numbers_as_text_are_numbers(record, logger):
    """The step, every documented field, and a keyword."""
    found = record(
        lambda made: made.log_step("7", ".1", "100", "10", "0.5", "2.0", "1e-4", moe_aux_loss="0.25", lag="3")
    )
    del found["time"]
    assert found == {
        "log": "step", "step": 7, "epoch": 0.1, "step_tokens": 100, "duration_ms": 10, "norm": 0.5, "loss": 2.0,
        "lr": 1e-4, "moe_aux_loss": 0.25, "lag": 3,
    }  # fmt: skip
    stored = chiplog.read(logger.run.dir)
    assert stored.series("train/lr").values.tolist() == [1e-4]
    assert stored.series("train/tokens_per_second").values.tolist() == [10_000.0]
    assert logger.get_moe_stats()["aux_loss"] == 0.25


@pytest.mark.parametrize(("call", "field", "wanted"), [
    (lambda made: made.log_eval("7", "1.5", "10", "2", "2.5"), "eval_tokens", 10),
    (lambda made: made.log_moe_stats("7", "0.5", "1"), "aux_loss", 0.5),
    (lambda made: made.log_gpu_state("7", "1", {"clock": "1800", "throttle": "1"}), "clock", 1800),
    (lambda made: made.log_abs_maxes("7", {"w": "2.5"}), "abs_maxes", [{"name": "w", "value": 2.5}]),
    (lambda made: made.log_message("7", "2.5"), "message", "2.5"),
], ids=["eval", "moe", "gpu", "abs maxes", "message"])  # fmt: skip
def test_numbers_as_text_in_every_call(record, call, field, wanted):
    """A step is a step, a number a number, and a text a text."""
    found = record(call)
    assert (found["step"], found[field]) == (7, wanted) and type(found[field]) is type(wanted)


@pytest.mark.parametrize(("call", "field", "wanted"), [
    (lambda made: made.log_dataset({"files": {"a": "4", "b": 5}}), "tokens", 9),
    (lambda made: made.log_dataset({"files": "a.bin", "tokens": "1e3"}), "files", 1),
    (lambda made: made.log_allocator({"weights": {"device": "5"}}), "stats", [{"name": "weights", "device": 5, "managed": 0, "pinned": 0, "pageable": 0}]),
    (lambda made: made.log_gpu_model(name="1080", sm_count="20"), "sm_count", 20),
    (lambda made: made.log_gpu_model(name="1080", sm_count="20"), "name", "1080"),
    (lambda made: made.log_sol_estimate("36e9", "1", 2, peaks={"bf16": "989.4"}), "bf16_peak", 989.4),
    (lambda made: made.log_cmd("train.py"), "cmd", ["train.py"]),
], ids=["tokens of files", "one file", "bytes", "gpu", "name", "peak", "cmd"])  # fmt: skip
def test_numbers_as_text_at_the_start(record, call, field, wanted):
    """Where a number is meant."""
    assert record(call)[field] == wanted


def test_a_text_is_a_field_of_its_record(tmp_path, capsys):
    """In the file and for the callback, of this step only, quietly; and kept with the run."""
    got = []
    with TrainingRunLogger(tmp_path / "log.json", callback=got.append, verbosity=-2) as made:
        made.log_step(1, *STEP, note="warmup", time="noon")
        made.log_step(2, *STEP)
        made.log_eval(2, 0.1, 10, 1, 2.0, note="test")
    first, second, third = read(tmp_path / "log.json")
    assert (first["note"], first["train/time"], third["note"]) == ("warmup", "noon", "test")
    assert first["time"].startswith("20") and "note" not in second
    assert [json.loads(line) for line in got] == [first, second, third]
    texts = [(text.name, text.text, text.step) for text in chiplog.read(made.run.dir).records(kind="text")]
    assert texts == [("train/note", "warmup", 1), ("train/time", "noon", 1), ("eval/note", "test", 2)]
    assert capsys.readouterr().err == ""


def test_a_text_is_there_after_a_disk_refused(tmp_path):
    """Also where the file is made from the journal later."""
    folder = tmp_path / "out"
    folder.touch()  # no directory can be made there
    made = TrainingRunLogger(folder / "log.json", verbosity=-2)
    made.log_step(1, *STEP, note="a")
    made.log_step(2, *STEP, note="b")
    folder.unlink()
    made.close()
    assert [found["note"] for found in read(folder / "log.json")] == ["a", "b"]


def test_a_step_that_knows_little_is_a_step(record):
    """Null for what is not known."""
    found = record(lambda made: made.log_step(10, 0.1, None, None, 0.1, 2.0, 1e-4))
    assert (found["log"], found["step_tokens"], found["duration_ms"], found["loss"]) == ("step", None, None, 2.0)


def test_a_step_of_a_loss_is_a_step(record):
    """By name, with nothing else."""
    found = record(lambda made: made.log_step(step=10, loss=2.0))
    assert (found["log"], found["step"], found["loss"], found["lr"]) == ("step", 10, 2.0, None)


@pytest.mark.parametrize("call", [
    lambda made: made.log_dataset("train", 5), lambda made: made.log_gpu_state(5, 0, None), lambda made: made.log_gpu_model(5),
    lambda made: made.log_allocator({"weights": 4294967296}), lambda made: made.log_allocator(5), lambda made: made.log_cmd(5),
])  # fmt: skip
def test_what_says_nothing_is_not_recorded(logger, tmp_path, call):
    """No record of nulls."""
    call(logger)
    assert read(tmp_path / "log.json") == []


def test_what_can_be_used_is_kept(logger, tmp_path):
    """One split, one segment, one field."""
    logger.log_dataset("train", {"tokens": 5})
    logger.log_allocator({"weights": 4294967296, "lora": {"device": 5}})
    logger.log_gpu_state(1, 0, {"clock": "fast", "power": 5})
    dataset, memory, gpu = read(tmp_path / "log.json")
    assert (dataset["split"], dataset["tokens"]) == ("eval", 5)
    assert [one["name"] for one in memory["stats"]] == ["lora"]
    assert (gpu["clock"], gpu["power"]) == (None, 5)


def test_one_argument_is_reported_once(logger, capsys):
    """However its value changes."""
    for number in range(5):
        logger.log_step(number, 0.1, 1, 1, f"x{number}", 2.0, 1e-4)
    assert capsys.readouterr().err.count("log_step: norm is 'x") == 1
