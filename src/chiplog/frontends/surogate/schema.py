"""The objects in Surogate's log file: which ones a record becomes, and the order of their fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from chiplog.core import records
from chiplog.core.records import AnyRecord, Attempt, Eval, Event, Plain, Step, TextRecord
from chiplog.metrics.moe import DOCUMENTED, FIELDS, INLINE

STEP = ("epoch", "step_tokens", "duration_ms", "norm", "loss", "lr")
EVAL = ("epoch", "eval_tokens", "duration_ms", "loss")
# The order of the routers' numbers in a full step.
MOE_STEP = (*INLINE, "expert_utilization", *FIELDS[len(DOCUMENTED) :])
# The fields that Surogate has; others in a row are the training's own.
_OURS = {
    "train": frozenset((*STEP, "kd_loss", *(f"moe_{name}" for name in MOE_STEP), "tokens_per_second", "sol")),
    "eval": frozenset((*EVAL, "tokens_per_second")),
}
_OF_A_STEP = ("train/loss", "train/step_tokens", "train/duration_ms")  # every `log_step` has at least one of them
_FIRST = ("log", "time", "step")  # fields of any record
DATASET = ("files", "tokens", "file_index", "chunk_index", "seed")
GPU_MODEL = (
    *("id", "name", "l2_size", "sm_count", "major", "minor", "memory", "free", "reserved", "uuid", "ecc"),
    *("shared_mem", "cuda_driver", "cuda_runtime"),
)
SOL = ("blocks", "lm_head", "attention", "tps", "tf32_peak", "bf16_peak", "fp16_peak", "fp8_peak")
GPU = (
    *("id", "clock", "max_clock", "fan", "power", "power_limit", "temperature", "temp_slowdown", "gpu_util"),
    *("mem_util", "throttle", "dram_free", "pcie_rx", "pcie_tx"),
)
# Every field, null if unknown; the fan is 0 without one, and the reason empty if nothing throttles.
GPU_UNKNOWN = {name: {"fan": 0, "throttle": ""}.get(name) for name in GPU}
_encode = json.JSONEncoder(ensure_ascii=False).encode


def lines(record: AnyRecord, notes: dict[str, Plain]) -> list[bytes]:
    """The lines of a record; `notes` keeps the current phase, and texts until the row that they belong to."""
    return [b"  " + _encode(one).encode("utf-8", "backslashreplace") for one in objects(record, notes)]


def is_statistics(record: AnyRecord) -> bool:
    """Whether a record holds statistics across ranks, which are not logged by the training."""
    return isinstance(record, (Step, Eval)) and record.across


def objects(record: AnyRecord, notes: dict[str, Plain]) -> Iterator[dict[str, Plain]]:
    """The objects of a record: one per option for a config, none for records that Surogate does not have, else one."""
    plain = records.fields(record)
    at = {"time": _time(record.time), "step": plain.get("step", 0)}
    if is_statistics(record):
        return
    if isinstance(record, Step):
        yield _step(plain["metrics"], at, notes)
    elif isinstance(record, Eval):
        row = {**plain["metrics"], **_texts("eval", at, notes)}
        yield _with_others({"log": "eval", **at, **_all(EVAL, row)}, row, "eval")
    elif isinstance(record, TextRecord):
        _note(record, at, notes)
    elif isinstance(record, Attempt):
        notes.clear()  # a new attempt has no phase yet
    elif isinstance(record, Event):
        yield from _event(record.name, plain.get("data", {}), at, notes)


def _step(metrics: Mapping[str, Plain], at: Mapping[str, Plain], notes: dict[str, Plain]) -> dict[str, Plain]:
    texts = _texts("train", at, notes)
    if metrics.keys().isdisjoint(_OF_A_STEP):  # logged by the training itself
        return {"log": "metrics", **at, **metrics, **{f"train/{name}": text for name, text in texts.items()}}
    row = {**{name[6:]: value for name, value in metrics.items() if name[:6] == "train/"}, **texts}
    step = {"log": "step", **at, **_all(STEP, row), **_present(("kd_loss",), row)}
    step |= _present([f"moe_{name}" for name in MOE_STEP], row)
    step = _with_others(step, row, "train")
    if phase := notes.get("phase"):
        step["phase"] = phase
    return step


def _with_others(fields: dict[str, Plain], row: Mapping[str, Plain], group: str) -> dict[str, Plain]:
    """The fields, followed by the training's own; a name that every object has gets its group as a prefix."""
    others = {name: value for name, value in row.items() if name not in _OURS[group]}
    return {**fields, **{f"{group}/{name}" if name in _FIRST else name: value for name, value in others.items()}}


def _note(record: TextRecord, at: Mapping[str, Plain], notes: dict[str, Plain]) -> None:
    """Keep a text for the row of its step, which follows."""
    group, _, name = record.name.partition("/")
    if group not in _OURS or name in _OURS[group]:
        return
    held = notes.get(f"{group} texts", {})
    texts = held["texts"] if held.get("step") == at["step"] else {}
    notes[f"{group} texts"] = {"step": at["step"], "texts": {**texts, name: record.text}}


def _texts(group: str, at: Mapping[str, Plain], notes: dict[str, Plain]) -> dict[str, Plain]:
    """The texts that were kept for this row."""
    held = notes.pop(f"{group} texts", {})
    return dict(held["texts"]) if held.get("step") == at["step"] else {}


def _event(
    name: str, data: Mapping[str, Plain], at: Mapping[str, Plain], notes: dict[str, Plain]
) -> Iterator[dict[str, Plain]]:
    time = {"time": at["time"]}
    start = {**time, "step": 0}
    ranked = {**time, "rank": data.get("rank", 0), "step": 0}
    if name == "phase":
        notes["phase"] = data.get("phase", "")
    elif name == "config":
        for option, value in data.items():
            yield {"log": "option", **start, "name": option, "value": value}
    elif name == "cmd":
        yield {"log": "cmd", **start, "cmd": data.get("cmd", [])}
    elif name == "dataset":
        yield {"log": "dataset", "split": data.get("split"), **start, **_all(DATASET, data)}
    elif name == "gpu-model":
        yield {"log": name, **ranked, **_all(GPU_MODEL, data)}
    elif name == "allocator":
        yield {"log": name, **start, "stats": data.get("stats", [])}
    elif name == "sol":
        yield {"log": name, **ranked, **_all(SOL, data)}
    elif name == "moe":
        others = {key: value for key, value in data.items() if key not in (*FIELDS, *_FIRST, "dead_experts")}
        yield {"log": name, **at, **_all(DOCUMENTED, data), **_present(FIELDS[len(DOCUMENTED) :], data), **others}
    elif name == "gpu" and "lost" not in data:
        yield {"log": name, **at, **GPU_UNKNOWN, **_present(GPU, data)}
    elif name == "abs-maxes":
        yield {"log": name, **at, "abs_maxes": data.get("abs_maxes", [])}
    elif name == "info":
        yield {"log": name, **at, **_present(("message", "duration_ms"), data)}


def _all(names: Iterable[str], data: Mapping[str, Plain]) -> dict[str, Plain]:
    """All of these fields, null if one is missing."""
    return {name: data.get(name) for name in names}


def _present(names: Iterable[str], data: Mapping[str, Plain]) -> dict[str, Plain]:
    return {name: data[name] for name in names if name in data}


def _time(nanoseconds: int) -> str:
    """UTC in ISO 8601, with microseconds."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06d}"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
