"""Surogate's file: whole whenever it is read, whatever is written, with its fields in their order."""

from __future__ import annotations

import io
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import chiplog
from chiplog.frontends.surogate import GPUUtilInfo, LogVerbosity, TrainingRunLogger
from tests.faults.harness import count, wait_for
from tests.frontends.surogate_logs import H100, MOE, OPS, STEP, everything, read
from tests.probes.stubs import Nvml


def killed_while_writing(folder, size, times):
    """How many of the files of trainers that were killed while they logged records of this size parse."""
    code = f"""
    import time
    from chiplog.frontends.surogate import TrainingRunLogger
    logger = TrainingRunLogger("log.json", verbosity=-2)
    for n in range(10**9):
        logger.log_message(n, str(n) + "x" * {size})
        time.sleep(0.0002)
    """
    (folder / "train.py").write_text(textwrap.dedent(code))
    generator, path, whole = random.Random(size), folder / "log.json", 0
    for _ in range(times):
        before = path.stat().st_size if path.exists() else 0
        victim = subprocess.Popen([sys.executable, "train.py"], cwd=folder, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda before=before: path.exists() and path.stat().st_size > before + 10 * size, 60)
            time.sleep(generator.random() * 0.3)  # a moment nobody chose
        finally:
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
        try:
            read(path)
            whole += 1
        except ValueError:
            pass
    return whole


def test_33_the_file_is_whole_whenever_it_is_killed(tmp_path):
    """SIGKILL at random moments while records are written: the file parses every time, and what it lacks at its end
    comes from the journal when it is opened again."""
    times = count(4, 60)
    assert killed_while_writing(tmp_path, 10, times) == times
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
        pass
    logged = [
        record.data["message"] for record in chiplog.read(made.run.dir).records(kind="event") if record.name == "info"
    ]
    assert [record["message"] for record in read(tmp_path / "log.json")] == logged
    assert len(logged) > 10 * times


def test_33_long_records_are_never_lost(tmp_path):
    """A write of many pages may be cut by a kill; then the next one to open the file mends it, and nothing is lost."""
    killed_while_writing(tmp_path, 20_000, count(2, 40))
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
        pass
    logged = [
        record.data["message"] for record in chiplog.read(made.run.dir).records(kind="event") if record.name == "info"
    ]
    assert [record["message"] for record in read(tmp_path / "log.json")] == logged


@pytest.mark.parametrize("text", ['a"b\n\\', "é→\u2028", "\x00\x1b[31m", "]}", "\ud800"])
def test_34_any_text_round_trips(tmp_path, text):
    """In options, messages, phases, names and the command line."""
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
        made.log_cmd([text])
        made.log_options({"x": text})
        made.log_message(0, text)
        made.log_allocator({text: {"device": 1}})
        made.set_phase(text)
        made.log_step(0, *STEP)
    cmd, option, message, segments, step = read(tmp_path / "log.json")
    wanted = text.encode("utf-8", "backslashreplace").decode()
    assert [cmd["cmd"][0], option["value"], message["message"], segments["stats"][0]["name"], step["phase"]] == [
        wanted
    ] * 5


@pytest.mark.parametrize(("value", "word"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_34_numbers_that_json_cannot_say(tmp_path, value, word):
    """Strings everywhere, the epoch and options too; the series have the numbers."""
    with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
        made.log_options({"x": value})
        made.log_step(0, value, 16384, 156, value, value, value, moe_aux_loss=value)
        made.log_eval(0, value, 1, 1, value)
        made.log_moe_stats(0, value, value, value, value)
    option, step, evaluation, moe = read(tmp_path / "log.json")
    assert option["value"] == word
    assert {step[name] for name in ("epoch", "norm", "loss", "lr", "moe_aux_loss")} == {word}
    assert {evaluation["epoch"], evaluation["loss"], moe["aux_loss"], moe["load_imbalance"]} == {word}
    assert str(chiplog.read(made.run.dir).series("train/loss").values.tolist()) == f"[{word}]"


def test_35_a_file_that_is_opened_again_goes_on(tmp_path, capsys):
    """Earlier records stay, and the two are attempts of one run."""
    for attempt in range(2):
        with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
            made.log_step(attempt, *STEP)
    assert [record["step"] for record in read(tmp_path / "log.json")] == [0, 1]
    assert len(chiplog.read(made.run.dir).attempts) == 2
    assert "this is a new attempt of it" in capsys.readouterr().err


def test_35_a_file_of_the_original_goes_on(tmp_path):
    """Whoever wrote the array."""
    path = tmp_path / "log.json"
    path.write_text('[\n  {"log": "step", "step": 7, "loss": "nan"}\n]\n')
    with TrainingRunLogger(path, verbosity=LogVerbosity.SILENT) as made:
        made.log_message(8, "on")
    assert [record["step"] for record in read(path)] == [7, 8]


ORDERS = [
    (lambda made: made.log_cmd(["a", "b"]), "log time step cmd"),
    (lambda made: made.log_options({"lr": 1.0}), "log time step name value"),
    (lambda made: made.log_dataset({"files": 1, "tokens": 5}), "log split time step files tokens file_index chunk_index seed"),
    (lambda made: made.log_gpu_model(name=H100), "log time rank step id name l2_size sm_count major minor memory free reserved uuid ecc shared_mem cuda_driver cuda_runtime"),
    (lambda made: made.log_allocator({"weights": {"device": 1}}), "log time step stats"),
    (lambda made: made.log_sol_estimate(*OPS), "log time rank step blocks lm_head attention tps tf32_peak bf16_peak fp16_peak fp8_peak"),
    (lambda made: made.log_step(1, *STEP), "log time step epoch step_tokens duration_ms norm loss lr"),
    (lambda made: made.log_step(1, *STEP, moe_aux_loss=1, moe_z_loss=1, moe_load_imbalance=1), "log time step epoch step_tokens duration_ms norm loss lr moe_aux_loss moe_z_loss moe_load_imbalance"),
    (lambda made: made.log_step_moe(1, *STEP, *MOE), "log time step epoch step_tokens duration_ms norm loss lr moe_aux_loss moe_z_loss moe_load_imbalance moe_expert_utilization moe_active_experts moe_max_expert_fraction moe_min_active_expert_fraction moe_load_cv moe_router_entropy moe_router_confidence"),
    (lambda made: made.log_eval(1, 1.5, 1, 1, 2.0), "log time step epoch eval_tokens duration_ms loss"),
    (lambda made: made.log_moe_stats(1, 1, 1, 1, 1), "log time step aux_loss z_loss expert_utilization load_imbalance"),
    (lambda made: made.log_moe_stats(1, *range(10)), "log time step aux_loss z_loss expert_utilization load_imbalance active_experts max_expert_fraction min_active_expert_fraction load_cv router_entropy router_confidence"),
    (lambda made: made.log_gpu_state(1, 0, GPUUtilInfo()), "log time step id clock max_clock fan power power_limit temperature temp_slowdown gpu_util mem_util throttle dram_free pcie_rx pcie_tx"),
    (lambda made: made.log_abs_maxes(1, {"w": 2.0}), "log time step abs_maxes"),
    (lambda made: made.log_message(1, "x"), "log time step message"),
    (lambda made: made.log_section_end(1, "x"), "log time step message duration_ms"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "order"), ORDERS, ids=[order.partition(" step")[0] + str(at) for at, (_, order) in enumerate(ORDERS)]
)
def test_36_the_fields_of_a_record_and_their_order(logger, tmp_path, call, order):
    """Names and places, exactly."""
    call(logger)
    assert logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert list(record) == order.split()


def test_36_the_layout_of_the_file(logger, tmp_path):
    """One object a line, two spaces in front, closed after every record."""
    for step in range(2):
        logger.log_step(step, *STEP)
        assert logger.flush()
        lines = (tmp_path / "log.json").read_text().split("\n")
        assert lines[0] == "[" and lines[-2:] == ["]", ""]
        assert all(line.startswith('  {"log": "step", "time": "20') for line in lines[1:-2])
        assert len(lines) == step + 4


def test_36_unknown_peaks_are_null(logger, tmp_path):
    """And so is the rate; -1 is nobody's peak."""
    logger.log_sol_estimate(*OPS, device="Some Card 9000")
    logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert {record[name] for name in ("tps", "tf32_peak", "bf16_peak", "fp16_peak", "fp8_peak")} == {None}


def test_32_the_file_has_everything_at_any_verbosity(tmp_path):
    """What is not shown is kept."""
    for verbosity in LogVerbosity:
        path = tmp_path / f"{verbosity.name}.json"
        with TrainingRunLogger(path, verbosity=verbosity, stream=io.StringIO()) as made:
            everything(made)
        assert len(read(path)) == 11


def test_the_file_is_complete_when_the_logger_is_gone(tmp_path):
    """The original has no `close`: the end of the object is enough, and so is the end of the program."""
    made = TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT)
    made.log_step(1, *STEP)
    del made
    assert len(read(tmp_path / "log.json")) == 1
    code = "from chiplog.frontends.surogate import TrainingRunLogger as L\nl = L('b.json')\nl.log_message(1, 'x')\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "x\n"
    assert len(read(tmp_path / "b.json")) == 1


def test_metrics_of_ones_own(logger, tmp_path):
    """The run is a run of ours: what else is logged is in the file under a kind of its own."""
    logger.run.log({"my/metric": 1.5}, step=4)
    logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert record.pop("time") and record == {"log": "metrics", "step": 4, "my/metric": 1.5}


def test_a_step_may_have_more(logger, tmp_path):
    """By keyword: a series, and a field behind the documented ones."""
    logger.set_phase("warmup")
    logger.log_step(1, *STEP, accuracy=0.75)
    logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert list(record)[-2:] == ["accuracy", "phase"] and record["accuracy"] == 0.75
    assert "tokens_per_second" not in record
    assert chiplog.read(logger.run.dir).series("train/accuracy").values.tolist() == [0.75]


def test_another_start_is_in_no_phase_yet(tmp_path):
    """What the run before said about itself does not go on."""
    for phase in ("diverging", None):
        with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
            if phase:
                made.set_phase(phase)
            made.log_step(1, *STEP)
    assert [record.get("phase") for record in read(tmp_path / "log.json")] == ["diverging", None]


def test_a_probe_fills_the_file(tmp_path):
    """`probes="nvidia"`: the model of each GPU at the start, and its telemetry."""
    nvml = Nvml()
    nvml.reset(2)
    with TrainingRunLogger(
        tmp_path / "log.json", verbosity=LogVerbosity.SILENT, probes={"nvidia": {"interval": 0.02}}
    ) as made:
        wait_for(lambda: "gpu/1/pcie_rx" in chiplog.read(made.run.dir).names(), 30)
    found = read(tmp_path / "log.json")
    models = [record for record in found if record["log"] == "gpu-model"]
    assert [(model["id"], model["name"], model["sm_count"]) for model in models] == [(0, H100, 132), (1, H100, 132)]
    samples = [record for record in found if record["log"] == "gpu"]
    assert {sample["id"] for sample in samples} == {0, 1}
    assert samples[0]["clock"] == 1800 and samples[0]["fan"] == 0 and samples[0]["pcie_rx"] is None
