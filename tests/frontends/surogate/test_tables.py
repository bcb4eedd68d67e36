"""Surogate's documented tables, samples and examples, row by row."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from chiplog.frontends.surogate import GPUUtilInfo, LogVerbosity, TrainingRunLogger, allocator
from tests.frontends.surogate.logs import read

SPACES = re.compile(r" +")
WHEN = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$")
GPU = {
    "clock": 1800, "max_clock": 2100, "fan": 65, "power": 350_000, "power_limit": 400_000, "temperature": 72,
    "temp_slowdown": 83, "gpu_utilization": 98, "mem_utilization": 85, "throttle_reason": "", "mem_free": 8_589_934_592,
    "pcie_rx": 1_073_741_824, "pcie_tx": 536_870_912,
}  # fmt: skip


def logged(*calls, verbosity=LogVerbosity.SILENT):
    """The records, the lines, and the run after these calls."""
    stream = io.StringIO()
    with TrainingRunLogger("log.json", verbosity=verbosity, stream=stream) as made:
        for call in calls:
            call(made)
    return read("log.json"), [SPACES.sub(" ", line).strip() for line in stream.getvalue().splitlines()], made.run


def step(made):
    made.log_step(100, 1.25, 16384, 156, 0.1234, 2.3456, 0.0002)


def evaluate(made):
    made.log_eval(500, 1.5, 32768, 234, 2.1234)


def moe(made):
    made.log_moe_stats(100, 0.0234, 0.0012, 0.9375, 1.45)


def gpu(made):
    made.log_gpu_state(100, 0, GPUUtilInfo(**GPU))


# -- the samples of records -------------------------------------------------------------------------------------------

STEP = {"log": "step", "step": 100, "epoch": 1.25, "step_tokens": 16384, "duration_ms": 156, "norm": 0.1234, "loss": 2.3456, "lr": 0.0002}  # fmt: skip
SAMPLES = [
    (step, STEP),
    (
        lambda made: made.log_step(
            100, 1.25, 16384, 156, 0.1234, 2.3456, 0.0002, moe_aux_loss=0.0234, moe_z_loss=0.0012, moe_load_imbalance=1.45
        ),
        {**STEP, "moe_aux_loss": 0.0234, "moe_z_loss": 0.0012, "moe_load_imbalance": 1.45},
    ),
    (evaluate, {"log": "eval", "step": 500, "epoch": 1.5, "eval_tokens": 32768, "duration_ms": 234, "loss": 2.1234}),
    (moe, {"log": "moe", "step": 100, "aux_loss": 0.0234, "z_loss": 0.0012, "expert_utilization": 0.9375, "load_imbalance": 1.45}),
    (gpu, {
        "log": "gpu", "step": 100, "id": 0, "clock": 1800, "max_clock": 2100, "fan": 65, "power": 350000,
        "power_limit": 400000, "temperature": 72, "temp_slowdown": 83, "gpu_util": 98, "mem_util": 85, "throttle": "",
        "dram_free": 8589934592, "pcie_rx": 1073741824, "pcie_tx": 536870912,
    }),
    (
        lambda made: made.log_allocator({
            "weights": {"device": 4294967296}, "gradients": {"device": 1073741824},
            "optimizer": {"device": 2147483648, "pinned": 8589934592},
        }),
        {"log": "allocator", "step": 0, "stats": [
            {"name": "weights", "device": 4294967296, "managed": 0, "pinned": 0, "pageable": 0},
            {"name": "gradients", "device": 1073741824, "managed": 0, "pinned": 0, "pageable": 0},
            {"name": "optimizer", "device": 2147483648, "managed": 0, "pinned": 8589934592, "pageable": 0},
        ]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sample"), SAMPLES, ids=["step", "moe step", "eval", "moe", "gpu", "allocator"])
def test_a_record_is_that_of_the_sample(call, sample):
    """All fields, in their order; the time is ISO with microseconds."""
    ((record,), _, _) = logged(call)
    assert WHEN.match(record["time"])
    assert list(record) == ["log", "time", *list(sample)[1:]]
    del record["time"]
    assert record == sample


# -- the samples of lines, their spaces folded ------------------------------------------------------------------------


def test_the_line_of_a_dense_step():
    """Loss, trend, norm, speed, time, speed of light and time left; 12.5 % is the share of the epoch."""

    def calls(made):
        made.set_expected_time_per_token(122.5e6 / 19547)  # 122 ms at the speed of light
        made.set_training_tokens(10**12)
        made.log_step(99, 1.12, 19547, 156, 0.1234, 2.4, 0.0002)
        made.log_step(100, 1.125, 19547, 156, 0.1234, 2.3456, 0.0002)

    (_, lines, _) = logged(calls, verbosity=LogVerbosity.DEFAULT)
    start = r":: step 100 [ 12.5%] \ loss 2.3456 | norm 0.1234 | 125.3k tps | 156 ms | sol 78.2 | eta "
    assert lines[1].startswith(start)
    assert re.fullmatch(r"\d+h\d\dm", lines[1].removeprefix(start))


def test_the_line_of_a_moe_step():
    """With aux loss and imbalance before the speed of light."""

    def calls(made):
        made.set_expected_time_per_token(122.5e6 / 19547)
        for loss in (2.4, 2.3456):
            made.log_step_moe(100, 1.125, 19547, 156, 0.1234, loss, 0.0002, 0.0234, 0.0012, 1.45)

    (_, lines, _) = logged(calls, verbosity=LogVerbosity.DEFAULT)
    assert lines[1] == (
        r":: step 100 [ 12.5%] \ loss 2.3456 | norm 0.1234 | 125.3k tps | 156 ms | aux 0.0234 | imbal 1.45 | sol 78.2"
    )


def test_the_line_of_an_eval():
    """With the gap to the training before it."""

    def calls(made):
        made.log_step(1, 0.1, 16384, 156, 0.1, 2.1111, 0.0002)
        made.log_eval(500, 1.5, 33977, 234, 2.1234)

    (_, lines, _) = logged(calls, verbosity=LogVerbosity.DEFAULT)
    assert lines[-1] == ">> eval loss 2.1234 | gap +0.0123 | 145.2k tps | 234 ms"


def test_the_block_of_the_speed_of_light():
    """Peak, the three parts, and the rate."""

    def calls(made):
        made.log_sol_estimate(123.4e9, 45.6e9, 78.9e9, peaks={"bf16": 989.5}, world_size=39)

    (_, lines, _) = logged(calls, verbosity=LogVerbosity.DEFAULT)
    assert lines[:5] == [
        "[Speed of Light]",
        "Peak BF16: 989.5 TFLOP/s",
        "Blocks: 123.4 GFLOP in bf16",
        "LM-Head: 45.6 GFLOP in bf16",
        "Attention: 78.9 GFLOP in bf16",
    ]
    assert re.fullmatch(r"SOL: 15\d{4} tok/s", lines[5])


LEGEND = [
    ("\\", lambda made: [made.log_step(n, 0, 1, 1, 1.0, loss, 0) for n, loss in enumerate((2.0, 1.0))]),
    ("/", lambda made: [made.log_step(n, 0, 1, 1, 1.0, loss, 0) for n, loss in enumerate((1.0, 2.0))]),
    ("!", lambda made: [made.log_step(n, 0, 1, 1, norm, 1.0, 0) for n, norm in enumerate([1.0] * 9 + [5.1])]),
    ("aux", lambda made: made.log_step(1, 0, 1, 1, 1.0, 1.0, 0, moe_aux_loss=0.1)),
    ("imbal", lambda made: made.log_step(1, 0, 1, 1, 1.0, 1.0, 0, moe_load_imbalance=1.1)),
    ("sol", lambda made: [made.set_expected_time_per_token(10**6), made.log_step(1, 0, 1, 1, 1.0, 1.0, 0)]),
    ("eta", lambda made: [made.set_training_tokens(10), made.log_step(1, 0, 1, 1, 1.0, 1.0, 0)]),
]


@pytest.mark.parametrize(("sign", "call"), LEGEND, ids=[sign for sign, _ in LEGEND])
def test_every_sign_of_the_legend(sign, call):
    """Each is there when it should be, and not on a plain line."""
    assert sign in logged(call, verbosity=LogVerbosity.DEFAULT)[1][-1]
    plain = logged(lambda made: made.log_step(1, 0, 1, 1, 1.0, 1.0, 0), verbosity=LogVerbosity.DEFAULT)[1][-1]
    assert sign not in plain.replace("loss", "")


# -- the tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("series", "value", "kind"), [
    # Training metrics
    ("train/loss", 2.3456, float), ("train/norm", 0.1234, float), ("train/lr", 0.0002, float),
    ("train/epoch", 1.25, float), ("train/step_tokens", 16384, int), ("train/duration_ms", 156, int),
    ("train/tokens_per_second", 16384 / 156 * 1000, float),
    # Evaluation metrics
    ("eval/loss", 2.1234, float), ("eval/eval_tokens", 32768, int), ("eval/duration_ms", 234, int),
    ("eval/tokens_per_second", 32768 / 234 * 1000, float), ("eval/epoch", 1.5, float),
    # MoE metrics
    ("moe/aux_loss", 0.0234, float), ("moe/z_loss", 0.0012, float), ("moe/expert_utilization", 0.9375, float),
    ("moe/load_imbalance", 1.45, float),
    # GPU metrics
    ("gpu/0/clock", 1800, int), ("gpu/0/max_clock", 2100, int), ("gpu/0/power", 350_000, int),
    ("gpu/0/power_limit", 400_000, int), ("gpu/0/temperature", 72, int), ("gpu/0/temp_slowdown", 83, int),
    ("gpu/0/gpu_util", 98, int), ("gpu/0/mem_util", 85, int), ("gpu/0/dram_free", 8_589_934_592, int),
    ("gpu/0/pcie_rx", 1_073_741_824, int), ("gpu/0/pcie_tx", 536_870_912, int), ("gpu/0/fan", 65, int),
    # Speed of light
    ("sol/blocks", 36_000_000_000, int), ("sol/lm_head", 786_432_000, int), ("sol/attention", 1_610_612_736, int),
    ("sol/tps", 25_769, int), ("sol/tf32_peak", 494.7, float), ("sol/bf16_peak", 989.4, float),
    ("sol/fp16_peak", 989.4, float), ("sol/fp8_peak", 1978.9, float),
    # Memory, by segment
    ("allocator/weights/device", 4 << 30, int), ("allocator/weights/managed", 1, int),
    ("allocator/weights/pinned", 2, int), ("allocator/weights/pageable", 3, int),
    # Dataset
    ("dataset/train/files", 3, int), ("dataset/train/tokens", 10**9, int), ("dataset/train/file_index", 1, int),
    ("dataset/train/chunk_index", 2, int), ("dataset/train/seed", 1234, int), ("dataset/eval/tokens", 5000, int),
    # GPU model
    ("gpu-model/0/sm_count", 132, int), ("gpu-model/0/major", 9, int), ("gpu-model/0/minor", 0, int),
    ("gpu-model/0/memory", 80 << 30, int), ("gpu-model/0/free", 79 << 30, int), ("gpu-model/0/l2_size", 50 << 20, int),
    ("gpu-model/0/ecc", True, bool), ("gpu-model/0/cuda_driver", 12080, int), ("gpu-model/0/cuda_runtime", 12060, int),
])  # fmt: skip
def test_every_number_of_the_tables_is_a_series(all_of_it, series, value, kind):
    """By its name, of its type, with its value: for every view of ours, and not only in the file."""
    found, run = all_of_it
    stored = chiplog.read(run.dir).series(series)
    assert stored.values.tolist() == pytest.approx([float(value)])
    assert isinstance(value, kind) and found


@pytest.fixture(scope="module")
def all_of_it(tmp_path_factory):
    """One run that says everything in the tables."""
    folder = tmp_path_factory.mktemp("all")
    with TrainingRunLogger(folder / "log.json", verbosity=LogVerbosity.SILENT, dir=folder) as made:
        made.log_dataset(
            {"files": 3, "tokens": 10**9, "file_index": 1, "chunk_index": 2, "seed": 1234}, {"files": 1, "tokens": 5000}
        )
        made.log_gpu_model(
            name="NVIDIA H100 80GB HBM3", sm_count=132, major=9, minor=0, memory=80 << 30, free=79 << 30,
            l2_size=50 << 20, uuid="ab" * 16, ecc=True, cuda_driver=12080, cuda_runtime=12060,
        )  # fmt: skip
        made.log_allocator({"weights": {"device": 4 << 30, "managed": 1, "pinned": 2, "pageable": 3, "stack": "x"}})
        made.log_sol_estimate(36e9, 786_432_000, 1_610_612_736, device="NVIDIA H100 80GB HBM3")
        for call in (step, evaluate, moe, gpu):
            call(made)
    return read(folder / "log.json"), made.run


TEXTS = [("gpu-model", "name", "NVIDIA H100 80GB HBM3"), ("gpu-model", "uuid", "ab" * 16), ("gpu", "throttle", ""), ("dataset", "split", "train")]  # fmt: skip


@pytest.mark.parametrize(("kind", "field", "text"), TEXTS)
def test_every_text_of_the_tables_is_in_the_file(all_of_it, kind, field, text):
    """Strings are not series."""
    records, _ = all_of_it
    assert next(record for record in records if record["log"] == kind)[field] == text


@pytest.mark.parametrize("segment", ["weights", "gradients", "optimizer", "activations", "lora", "qlora"])
def test_every_segment_of_memory(segment):
    """Known by name, and a part of a report."""
    assert segment in allocator.SEGMENTS
    assert allocator.report({segment: {"device": 5}})["stats"] == [
        {"name": segment, "device": 5, "managed": 0, "pinned": 0, "pageable": 0}
    ]


@pytest.mark.parametrize(("level", "name"), [(-2, "SILENT"), (-1, "QUIET"), (0, "DEFAULT"), (1, "VERBOSE")])
def test_every_level_of_verbosity(level, name):
    """By name and by number."""
    assert LogVerbosity[name] == level


ARGUMENTS = [
    ("log_cmd", {"args": ["train.py"]}, "cmd"),
    ("log_options", {"options": {"lr": 2e-4}}, "option"),
    ("log_dataset", {"train_loader": {"files": 1, "tokens": 5}, "eval_loader": None}, "dataset"),
    ("log_step", {"step": 1, "epoch": 0.5, "step_tokens": 2, "duration_ms": 3, "norm": 4, "loss": 5, "lr": 6}, "step"),
    ("log_eval", {"step": 1, "epoch": 0.5, "eval_tokens": 2, "duration_ms": 3, "loss": 4}, "eval"),
    ("log_moe_stats", {"step": 1, "aux_loss": 2, "z_loss": 3, "expert_utilization": 0.5, "load_imbalance": 4}, "moe"),
    ("log_gpu_state", {"step": 1, "gpu_id": 0, "gpu_util": GPUUtilInfo()}, "gpu"),
    ("log_allocator", {"stats": {"weights": {"device": 1}}}, "allocator"),
    ("log_message", {"step": 1, "msg": "a word"}, "info"),
]


@pytest.mark.parametrize(("call", "arguments", "kind"), ARGUMENTS, ids=[call for call, *_ in ARGUMENTS])
def test_every_argument_of_a_call_has_its_name(call, arguments, kind):
    """And each call leaves one record, with the numbers it was given."""
    ((record,), _, _) = logged(lambda made: getattr(made, call)(**arguments))
    assert record["log"] == kind
    numbers = {name: value for name, value in arguments.items() if isinstance(value, (int, float)) and name != "gpu_id"}
    assert {name: record[name] for name in numbers} == numbers


# -- the examples ------------------------------------------------------------------------------------------------------

PYTHON_API = """
from chiplog.frontends.surogate import _surogate

# Create logger
logger = _surogate.TrainingRunLogger(
    "training.json",
    callback=my_callback, # Optional: receives JSON lines
    verbosity=_surogate.LogVerbosity.DEFAULT
)

# Log metrics
logger.log_step(step, epoch, tokens, duration_ms, norm, loss, lr)
logger.log_eval(step, epoch, tokens, duration_ms, loss)
logger.log_moe_stats(step, aux_loss, z_loss, utilization, imbalance)

# Get MoE stats from trainer
moe_stats = trainer.get_moe_stats()
"""
READING = """
import json

with open("training.json") as f:
    logs = json.load(f)

# Filter by log type
train_steps = [l for l in logs if l.get("log") == "step"]
eval_steps = [l for l in logs if l.get("log") == "eval"]
moe_logs = [l for l in logs if l.get("log") == "moe"]
"""
WORLD = """
import chiplog
from chiplog.frontends.surogate import RouterStats
lines = []
my_callback = lines.append
step, epoch, tokens, duration_ms, norm, loss, lr = 1, 0.5, 16384, 156, 0.1234, 2.3456, 2e-4
aux_loss, z_loss, utilization, imbalance = 0.0234, 0.0012, 0.9375, 1.45
trainer = RouterStats()
trainer.observe(chiplog.Router([[4, 4], [6, 2]], [[0.5, 0.5], [0.7, 0.3]]))
"""


def test_the_examples_run_as_they_are(tmp_path):
    """The documented Python API and the documented way to read the file, with only the import changed."""
    (tmp_path / "train.py").write_text(
        WORLD + PYTHON_API + "assert [l.split('\"')[3] for l in lines] == ['step', 'eval', 'moe'], lines\n"
        "assert set(moe_stats) == {'aux_loss', 'z_loss', 'expert_utilization', 'load_imbalance', 'valid'}\n"
        "assert moe_stats['valid'] and moe_stats['load_imbalance'] == 1.25\n"
    )
    (tmp_path / "look.py").write_text(
        READING + "assert (len(train_steps), len(eval_steps), len(moe_logs)) == (1, 1, 1)\n"
    )
    for script in ("train.py", "look.py"):
        done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_file_can_be_read_while_training_goes_on(tmp_path):
    """After a flush, by the same process."""
    with TrainingRunLogger(tmp_path / "training.json", verbosity=LogVerbosity.SILENT) as made:
        for number in range(3):
            made.log_step(number, 0.1, 16384, 156, 0.1, 2.0, 2e-4)
            assert made.flush()
            with Path(tmp_path / "training.json").open() as file:
                assert len(json.load(file)) == number + 1
