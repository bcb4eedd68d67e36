"""Surogate's console: its lines to the character, check by check, and what each verbosity shows."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from chiplog.core.records import Event, Finish, Step
from chiplog.frontends.surogate import LogVerbosity, TrainingRunLogger
from chiplog.frontends.surogate.console import amount, layout
from chiplog.sinks.console.sink import Console
from tests.frontends.surogate.logs import H100, MOE, OPS, STEP, everything, read, shown, steps


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
    """Large and small, and what is not a number."""
    lines = shown(steps({"norm": math.inf, "tokens": 500, "ms": 1000, "epoch": 1.25}))
    assert lines[0] == ":: step       0 [ 25.0%]   loss 2.3356 | norm     inf |   0.5k tps |  1000 ms"
    assert shown(steps({"ms": 0}))[0].endswith("|   0.0k tps |     0 ms")


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


GPU = {
    "clock": 1800, "max_clock": 2100, "power": 350_000, "power_limit": 400_000, "temperature": 72, "temp_slowdown": 83,
    "gpu_util": 98, "mem_util": 85, "dram_free": 8 << 30, "pcie_rx": 1 << 30, "pcie_tx": 1 << 29, "fan": 65, "throttle": "",
}  # fmt: skip
LINE = (
    "[G] step     7 [gpu  0] | power  350 W   | temp  72 / 83°C | clock 1800 MHz | {} MiB "
    "| PCI↓ 1024 MiB/s| PCI↑  512 MiB/s"
)


def test_a_gpu_model_of_texts_and_nan():
    """Versions as text are shown as they are, memory that is not a number is not."""

    def calls(made):
        made.log_gpu_model(name=H100, memory=math.nan, free=1, cuda_driver="12.8", cuda_runtime=12060)

    assert shown(calls) == ["[System 0]", f"  Device:  {H100}", "  CUDA:    driver 12.8, runtime 12.6"]


@pytest.mark.parametrize("unknown", [math.nan, math.inf, "nan", "much", None])
def test_one_field_that_is_not_a_number_is_a_dash(unknown, capsys):
    """The rest of the line is there."""
    (line,) = shown(lambda made: made.log_gpu_state(7, 0, {**GPU, "temperature": unknown}), LogVerbosity.VERBOSE)
    assert line == LINE.format("Mem Free 8192").replace("temp  72", "temp   -")
    assert "Error" not in capsys.readouterr().err


def test_the_memory_of_a_gpu_with_the_documented_fields():
    """Free memory is all the table has; with the size from `log_gpu_model`, what is used."""
    assert shown(lambda made: made.log_gpu_state(7, 0, GPU), LogVerbosity.VERBOSE) == [LINE.format("Mem Free 8192")]

    def calls(made):
        made.log_gpu_model(name=H100, memory=80 << 30)
        made.log_gpu_state(7, 0, GPU)

    assert shown(calls, LogVerbosity.VERBOSE)[-1] == LINE.format("Mem Usage 73728")


@pytest.mark.parametrize(("verbosity", "wanted"), [
    (LogVerbosity.SILENT, []),
    (LogVerbosity.QUIET, [">> eval"]),
    (LogVerbosity.DEFAULT, ["[Dataset]", " train:", " eval:", "[Speed of Light]", "[System 0]", ":: step", ">> eval", "a word", "Saving ...", "  done in"]),
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
    assert sum("part-" in line for line in lines) == {-2: 0, -1: 0, 0: 0, 1: 12}[verbosity], "files are for level 1"


def test_files_of_a_dataset_whose_tokens_nobody_knows():
    """Named at level 1, by a path or several."""
    lines = shown(
        lambda made: made.log_dataset({"files": ["a.bin", Path("b.bin")], "tokens": 10}, {"files": "c.bin"}), 1
    )
    assert lines == ["[Dataset]", " train:    0k tokens", "   a.bin :          -", "   b.bin :          -", " eval:     - tokens", "   c.bin :          -"]  # fmt: skip


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


def test_a_message_of_several_lines_is_several_lines():
    """And an empty one is an empty line."""
    lines = shown(lambda made: (made.log_message(1, "one\n  two"), made.log_message(1, "")), LogVerbosity.DEFAULT)
    assert lines == ["one", "  two", ""]


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
