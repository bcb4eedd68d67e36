"""The Surogate front end, check by check of what was seen of the original and of what must be better."""

from __future__ import annotations

import io
import json
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import chiplog
from chiplog.core.identity import Identity
from chiplog.core.records import Event, Finish, Step
from chiplog.frontends.surogate import GPUUtilInfo, LogVerbosity, RouterStats, TrainingRunLogger
from chiplog.frontends.surogate.console import amount, layout
from chiplog.metrics.moe import Router
from chiplog.sinks.console import Console
from tests.faults.harness import count, wait_for
from tests.probes.stubs import Nvml

STEP = (0.125, 16384, 156, 0.1234, 2.3356, 2e-4)  # epoch, tokens, ms, norm, loss, lr
OPS = (36e9, 786_432_000, 1_610_612_736)
H100 = "NVIDIA H100 80GB HBM3"
MOE = (0.0234, 0.0012, 1.45, 0.9375, 60, 0.05, 0.001, 0.3, 0.8, 0.5)  # all ten of a step, in its order


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def read(path):
    """The file, as strict JSON."""
    return json.loads(Path(path).read_bytes(), parse_constant=refuse)


@pytest.fixture
def logger(tmp_path):
    """A silent one, in the test's directory."""
    made = TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT)
    yield made
    made.close()


def shown(calls, verbosity=LogVerbosity.DEFAULT):
    """The lines on the console after these calls."""
    stream = io.StringIO()
    with TrainingRunLogger("log.json", verbosity=verbosity, stream=stream) as made:
        calls(made)
    return stream.getvalue().splitlines()


def steps(*rows):
    """Calls of `log_step` that differ in some of (epoch, tokens, ms, norm, loss, lr)."""
    names = ("epoch", "tokens", "ms", "norm", "loss", "lr")

    def call(made):
        for number, row in enumerate(rows):
            made.log_step(number, *{**dict(zip(names, STEP, strict=True)), **row}.values())

    return call


# -- 23 to 26: the step line ------------------------------------------------------------------------------------------


def test_23_the_step_line():
    """To the character."""
    lines = shown(steps({"loss": 2.3456}, {}))
    assert lines[1] == r":: step       1 [ 12.5%] \ loss 2.3356 | norm  0.1234 | 105.0k tps |   156 ms"


@pytest.mark.parametrize(("before", "now", "sign"), [
    (2.0, 1.9, "\\"), (1.9, 2.0, "/"), (2.0, 2.0, " "), (None, 2.0, " "), (math.nan, 2.0, " "), (-2.0, -1.0, "/"),
])  # fmt: skip
def test_24_the_trend(before, now, sign):
    """Falling, rising, equal, the first one; better than the original: a loss below zero has a trend too."""
    rows = [{"loss": loss} for loss in (before, now) if loss is not None]
    assert shown(steps(*rows))[-1][25] == sign


def test_24_a_nan_between_does_not_hide_the_trend():
    """The newest is held against the last one that was a number."""
    lines = shown(steps({"loss": 2.0}, {"loss": math.nan}, {"loss": 1.0}))
    assert [line[25] for line in lines if line.startswith("::")] == [" ", " ", "\\"]
    assert "loss    nan" in lines[1]


def norms(*values):
    lines = shown(steps(*({"norm": value} for value in values)))
    return [line.split(" | ")[1][5] for line in lines if line.startswith("::")]


def test_26_a_gradient_norm_that_spikes():
    """More than five times the mean of the finite past, the current one excluded; after nine."""
    assert norms(*[1.0] * 10, 5.5)[-1] == "!"
    assert norms(*[1.0] * 10, 4.9)[-1] == " "
    assert norms(*[1.0] * 8, 50.0)[-1] == " "
    assert norms(*[1.0] * 9, 50.0)[-1] == "!"


def test_26_a_norm_that_is_no_number_disables_nothing():
    """NaN is not flagged itself, infinity is; later spikes are seen."""
    assert norms(*[1.0] * 10, math.nan, math.inf, 5.5)[-3:] == [" ", "!", "!"]


def test_the_columns_keep_their_width():
    """Large and small, and what is no number."""
    lines = shown(steps({"norm": math.inf, "tokens": 500, "ms": 1000, "epoch": 1.25}))
    assert lines[0] == ":: step       0 [ 25.0%]   loss 2.3356 | norm     inf |   0.5k tps |  1000 ms"
    assert shown(steps({"ms": 0}))[0].endswith("|   0.0k tps |     0 ms")


# -- 27 to 31: speed of light, time left, gap, routers, distillation ---------------------------------------------------


def test_27_the_speed_of_light():
    """25,769 tokens a second on an H100; a step of 16,384 tokens in 156 ms is at 407.1 percent of it."""

    def calls(made):
        made.log_sol_estimate(*OPS, device=H100)
        made.log_step(1, *STEP)

    lines = shown(calls)
    assert lines[:6] == [
        "[Speed of Light]",
        "  Peak BF16:    989.4 TFLOP/s",
        "  Blocks:        36.0 GFLOP   in bf16",
        "  LM-Head:      786.4 MFLOP   in bf16",
        "  Attention:   1610.6 MFLOP   in bf16",
        "  SOL:          25769 tok/s",
    ]
    assert lines[6].endswith("   156 ms | sol 407.1")
    assert read("log.json")[0]["tps"] == 25_769


def test_27_a_step_of_no_time_has_no_share():
    """The original prints `inf`."""

    def calls(made):
        made.set_expected_time_per_token(38_806)
        made.log_step(1, *STEP[:2], 0, *STEP[3:])

    assert "sol" not in shown(calls)[0]


def replayed(*batch):
    """The console's lines for records with times of our own."""
    stream = io.StringIO()
    console = Console(stream, environ={}, width=1000, layout=layout(LogVerbosity.DEFAULT), rate=None)
    console.write(batch)
    console.close()
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(("total", "words"), [
    (10**7, "eta 02h46m"), (3 * 10**9, "eta 833h19m"), (10**15, "eta 277777777h46m"), (1000, "eta 00h00m"),
])  # fmt: skip
def test_28_the_time_left(total, words):
    """10 M tokens at 1,000 a second: 9,999 s after the first thousand; totals of any size."""
    metrics = {"train/step_tokens": 1000, "train/loss": 2.0, "train/duration_ms": 1000}
    plan = Event(0, 10**18, "plan", {"tokens": total}, 0)
    (line,) = replayed(plan, Step(1, 10**18 + 10**9, 1, metrics), Finish(2, 10**18 + 2 * 10**9, "finished"))
    assert line.endswith(words)


def test_28_through_the_logger():
    """`set_training_tokens` is all it takes."""

    def calls(made):
        made.set_training_tokens(3 * 10**9)
        made.log_step(1, *STEP)

    assert " | eta " in shown(calls)[0]


def test_29_the_gap_of_an_eval():
    """Eval loss minus the mean of the losses since the eval before; without any, none."""

    def calls(made):
        steps({"loss": 2.0}, {"loss": 4.0})(made)
        made.log_eval(2, 1.5, 32768, 234, 3.5)
        made.log_eval(3, 1.5, 32768, 234, 3.5)

    first, second = shown(calls)[-2:]
    assert first == ">> eval                      loss 3.5000 | gap +0.5000 | 140.0k tps |   234 ms"
    assert second == ">> eval                      loss 3.5000 | gap    n.a. | 140.0k tps |   234 ms"


def test_30_the_routers_in_a_step_line():
    """Five of them before the speed of light, when all ten are logged."""

    def calls(made):
        made.set_expected_time_per_token(38_806)
        made.log_step_moe(9, *STEP, *MOE)

    wanted = " ms | aux 0.0234 | imbal 1.45 | util 0.94 | hot 0.05 | ent 0.80 | sol 407.1"
    assert shown(calls)[0].endswith(wanted)


def test_30_the_documented_two():
    """Aux loss and imbalance, when the documented three are logged."""
    line = shown(lambda made: made.log_step(9, *STEP, moe_aux_loss=0.0234, moe_z_loss=0.0012, moe_load_imbalance=1.45))
    assert line[0].endswith("   156 ms | aux 0.0234 | imbal 1.45")


def test_31_distillation():
    """On the line, and in the file before the phase."""

    def calls(made):
        made.set_phase("converging")
        made.log_step_kd(1, *STEP, 0.5678)

    assert shown(calls)[0].endswith("   156 ms | kd 0.5678 | converging")
    assert list(read("log.json")[0])[-2:] == ["kd_loss", "phase"]


def test_a_phase_lasts_until_it_changes():
    """On lines and in records; an empty one removes it."""

    def calls(made):
        for phase in ("warmup", None, "plateau", ""):
            if phase is not None:
                made.set_phase(phase)
            made.log_step(1, *STEP)

    lines = [line.rpartition(" ms")[2] for line in shown(calls)]
    assert lines == [" | warmup", " | warmup", " | plateau", ""]
    assert [record.get("phase") for record in read("log.json")] == ["warmup", "warmup", "plateau", None]


def test_another_start_is_in_no_phase_yet(tmp_path):
    """What the run before said about itself does not go on."""
    for phase in ("diverging", None):
        with TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT) as made:
            if phase:
                made.set_phase(phase)
            made.log_step(1, *STEP)
    assert [record.get("phase") for record in read(tmp_path / "log.json")] == ["diverging", None]


def test_what_a_gpu_does_not_say_is_a_dash():
    """And a lost one says so."""

    def calls(made):
        made.log_gpu_state(7, 1, {"power": 350_000})
        made.run.event("gpu", step=7, id=2, lost=True, reason="GPU is lost")

    first, second = shown(calls, LogVerbosity.VERBOSE)
    assert first == (
        "[G] step     7 [gpu  1] | power  350 W   | temp   - /  -°C | clock    - MHz | Mem Usage - MiB "
        "| PCI↓    - MiB/s| PCI↑    - MiB/s"
    )
    assert second == "[G] step     7 [gpu  2] | lost: GPU is lost"
    assert len(read("log.json")) == 1


# -- 32: verbosity -----------------------------------------------------------------------------------------------------


def everything(made):
    made.log_cmd(["train.py"])
    made.log_options({"lr": 2e-4})
    made.log_dataset(
        {"files": {f"part-{n:02d}.bin": 4000 for n in range(12)}, "seed": 1}, {"files": 1, "tokens": 1_800_000}
    )
    made.log_sol_estimate(*OPS, device=H100)
    made.log_gpu_model(name=H100, memory=80 << 30, free=79 << 30, cuda_driver=12080)
    made.log_step(1, *STEP)
    made.log_eval(1, 1.5, 32768, 234, 3.5)
    made.log_gpu_state(1, 0, GPUUtilInfo(clock=1800, power=350_000, temperature=72, temp_slowdown=83, mem_free=8 << 30, mem_total=80 << 30, pcie_rx=1 << 30, pcie_tx=1 << 29))  # fmt: skip
    made.log_message(1, "a word")
    made.log_section_start(1, "Saving")
    made.log_section_end(1)


@pytest.mark.parametrize(("verbosity", "wanted"), [
    (LogVerbosity.SILENT, []),
    (LogVerbosity.QUIET, [">> eval"]),
    (LogVerbosity.DEFAULT, ["[Dataset]", " train:", "   part-00.bin", " eval:", "[Speed of Light]", "[System 0]", ":: step", ">> eval", "a word", "Saving ...", "  done in"]),
    (LogVerbosity.VERBOSE, ["[Dataset]", " train:", "   part-11.bin", "[Speed of Light]", ":: step", ">> eval", "[G] step", "a word"]),
])  # fmt: skip
def test_32_what_each_verbosity_shows(verbosity, wanted):
    """Nothing; evals; steps and the start; GPUs and all files. In the order of the calls."""
    lines = shown(everything, verbosity)
    found = [next((at for at, line in enumerate(lines) if line.startswith(start)), -1) for start in wanted]
    assert -1 not in found and found == sorted(found)
    if verbosity <= LogVerbosity.QUIET:
        assert len(lines) == len(wanted)
    assert any("[G]" in line for line in lines) == (verbosity == LogVerbosity.VERBOSE)
    assert sum("part-" in line for line in lines) == {-2: 0, -1: 0, 0: 10, 1: 12}[verbosity]


def test_32_the_lines_of_the_start_and_of_gpus():
    """To the character."""
    lines = shown(everything, LogVerbosity.VERBOSE)
    assert lines[:3] == ["[Dataset]", " train:   48k tokens", "   part-00.bin :       4000"]
    assert " eval:  1.8M tokens" in lines
    assert (
        "[G] step     1 [gpu  0] | power  350 W   | temp  72 / 83°C | clock 1800 MHz | Mem Usage 73728 MiB "
        "| PCI↓ 1024 MiB/s| PCI↑  512 MiB/s"
    ) in lines


@pytest.mark.parametrize(("tokens", "words"), [
    (40_000, "  40k"), (999_999, " 999k"), (1_800_000, " 1.8M"), (20_000_000, "  20M"), (350_000_000, " 350M"),
    (2_400_000_000, " 2.4B"), (300 * 10**9, " 300B"), (15 * 10**12, "15.0T"),
])  # fmt: skip
def test_32_amounts_of_tokens(tokens, words):
    """Four places and a suffix."""
    assert amount(tokens) == words


def test_32_the_file_has_everything_at_any_verbosity(tmp_path):
    """What is not shown is kept."""
    for verbosity in LogVerbosity:
        path = tmp_path / f"{verbosity.name}.json"
        with TrainingRunLogger(path, verbosity=verbosity, stream=io.StringIO()) as made:
            everything(made)
        assert len(read(path)) == 11


def test_colour_is_for_terminals():
    """The bold of evals goes to no file."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with TrainingRunLogger("log.json", stream=stream) as made:
        made.log_eval(1, 1.5, 32768, 234, 2.1234)
    assert (
        "\x1b[1m>> eval                      loss 2.1234 | gap    n.a. | 140.0k tps |   234 ms\x1b[22m\n"
        in stream.getvalue()
    )
    assert not any("\x1b" in line for line in shown(everything))


# -- 33 to 36: the file ------------------------------------------------------------------------------------------------


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


# -- 41, 45 and what is better -----------------------------------------------------------------------------------------


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


def test_values_of_any_library(logger, tmp_path):
    """Numpy and torch scalars are the numbers that they are."""
    import numpy
    import torch

    logger.log_step(numpy.int64(3), numpy.float32(0.5), 16384, 156, torch.tensor(0.25), torch.tensor(2.0), 2e-4)
    logger.flush()
    (record,) = read(tmp_path / "log.json")
    assert (record["step"], record["epoch"], record["norm"], record["loss"]) == (3, 0.5, 0.25, 2.0)


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


def test_the_work_of_a_trainer():
    """`set_expected_time_per_token(trainer)`, by the config of the model."""

    class Config:
        num_hidden_layers, hidden_size, intermediate_size, vocab_size = 32, 4096, 11008, 32000
        num_attention_heads, seq_len = 32, 2048

    class Trainer:
        config = Config

    def calls(made):
        made.set_expected_time_per_token(Trainer(), device=H100)
        made.log_step(1, *STEP)

    lines = shown(calls)
    assert lines[2] == "  Blocks:        38.9 GFLOP   in bf16"
    assert " | sol " in lines[-1]


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
