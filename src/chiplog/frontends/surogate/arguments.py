"""The arguments of Surogate's calls, in any form: objects, mappings, numbers of other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from pathlib import PurePath
from typing import Any

from chiplog import Run
from chiplog.core.records import Plain, TextRecord
from chiplog.core.values import convert
from chiplog.core.values.redact import redact_text
from chiplog.frontends.surogate import schema
from chiplog.frontends.surogate.safe_calls import Report, Unusable, shown
from chiplog.metrics import speed_of_light


class GPUUtilInfo:
    """The state of a GPU, for `log_gpu_state`; None is unknown."""

    NAMES = (
        *("clock", "max_clock", "power", "power_limit", "fan", "temperature", "temp_slowdown", "mem_free", "mem_total"),
        *("mem_reserved", "gpu_utilization", "mem_utilization", "throttle_reason", "pcie_rx", "pcie_tx"),
    )
    __slots__ = NAMES

    def __init__(self, **fields: object) -> None:
        fields = {_NAMES_OF_THE_CLASS.get(name, name): value for name, value in fields.items()}
        for name in self.NAMES:
            setattr(self, name, fields.pop(name, "" if name == "throttle_reason" else 0))
        if fields:
            raise TypeError(f"a GPU has no {next(iter(fields))!r}; available: {', '.join(self.NAMES)}")


# The names of the fields of `GPUUtilInfo` in the table of GPU metrics.
_NAMES_OF_THE_TABLE = {
    "gpu_utilization": "gpu_util",
    "mem_utilization": "mem_util",
    "mem_free": "dram_free",
    "mem_total": "dram_total",
    "mem_reserved": "dram_reserved",
    "throttle_reason": "throttle",
}
_NAMES_OF_THE_CLASS = {in_table: in_class for in_class, in_table in _NAMES_OF_THE_TABLE.items()}
_TEXTS = ("id", "name", "uuid")  # of a GPU model
LONGEST = 400  # characters of a text that may be a number


def number(value: Any) -> Plain:
    """A number of any library, or in a text, as a plain number, read at once; anything else unchanged."""
    if isinstance(value, str):
        return _parse(value)
    try:
        plain = convert.number(value)
    except Exception:
        return value
    return value if plain is None else plain


def _parse(text: str) -> int | float | str:
    if len(text) <= LONGEST:
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                pass
    return text


def required(value: object, argument: str) -> int | float:
    """A number without which a call logs nothing; raises Unusable."""
    plain = number(value)
    if not isinstance(plain, (int, float)) or plain - plain != 0:
        raise Unusable(argument, f"{argument} is {shown(value)}, not a number; nothing is logged")
    return plain


def numbers(values: Mapping[str, object], report: Report) -> dict[str, int | float]:
    """The values that are numbers; the others are reported and left out."""
    plain = {name: number(value) for name, value in values.items() if value is not None}
    kept = {name: value for name, value in plain.items() if isinstance(value, (int, float))}
    if wrong := [name for name in plain if name not in kept]:
        others = f", and {len(wrong) - 1} more are not" if len(wrong) > 1 else ""
        report(wrong[0], f"{wrong[0]} is {shown(plain[wrong[0]])}, not a number{others}; the rest is logged")
    return kept


def loggable(
    run: Run, group: str, row: Mapping[str, object], documented: Sequence[str], step: object, report: Report
) -> dict[str, Plain]:
    """The values of a row that can be logged; texts are recorded separately, for its record in the file."""
    kept: dict[str, Plain] = {}
    for name, raw in row.items():
        value = number(raw)
        if isinstance(value, str) and isinstance(step, (int, float)):
            if name in documented:
                report(name, f"{name} is {shown(value)}, not a number; it is kept as text, and the rest is logged")
            run.write(TextRecord, name=f"{group}/{name}", text=redact_text(convert.text(value)), step=step)
        elif value is not None:
            kept[name] = value
    return kept


def loss(value: object, report: Report) -> int | float:
    """A loss as a plain number; NaN if it is not a number, so that its step is logged and the mistake is seen."""
    plain = number(value)
    if isinstance(plain, (int, float)):
        return plain
    report("loss", f"loss is {shown(value)}, not a number; it is logged as NaN")
    return float("nan")


def step(value: object) -> Plain:
    """A step by Surogate's rules: 5.0 is 5."""
    plain = number(value)
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def gpu(state: object, report: Report) -> dict[str, Plain]:
    """The fields of a GPU by the table's names, from a `GPUUtilInfo` or anything with its fields or the table's."""
    names = (*GPUUtilInfo.NAMES, *_NAMES_OF_THE_TABLE.values())
    _check(state, "gpu_util", names)
    values = {_NAMES_OF_THE_TABLE.get(name, name): value for name in names if (value := get(state, name)) is not None}
    reason = values.pop("throttle", None)
    fields = numbers(values, report)
    if not fields.get("dram_total"):
        fields.pop("dram_total", None)  # 0 means unknown
    return fields if reason is None else {**fields, "throttle": str(reason)}


def gpu_model(gpu: object, more: Mapping[str, object], report: Report) -> dict[str, Plain]:
    """The fields of a GPU model, from a mapping or an object, and by keyword."""
    if gpu is not None or not more:
        _check(gpu, "gpu", schema.GPU_MODEL)
    fields = {name: value for name in schema.GPU_MODEL if (value := get(gpu, name)) is not None} | dict(more)
    texts = {name: value for name, value in fields.items() if name in _TEXTS or name not in schema.GPU_MODEL}
    return texts | numbers({name: value for name, value in fields.items() if name not in texts}, report)


def _check(thing: object, argument: str, names: Iterable[str]) -> None:
    """Raise Unusable for an object with none of these fields."""
    if not any(name in thing if isinstance(thing, Mapping) else hasattr(thing, name) for name in names):
        fields = ", ".join(dict.fromkeys(names))
        raise Unusable(argument, f"{argument} is {shown(thing)}, which has none of {fields}; nothing is logged of it")


def get(thing: object, name: str) -> Any:
    """A field of a mapping or an object; a method is called."""
    value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
    return value() if callable(value) else value


def dataset(loader: object, argument: str, report: Report) -> dict[str, Plain]:
    """The data of an event `dataset`, without its split; files by name are listed for the console."""
    _check(loader, argument, (*schema.DATASET, "num_files", "num_tokens"))
    files, tokens = get(loader, "files"), get(loader, "tokens")
    listing: list[list[Plain]] | None = None
    if isinstance(files, (str, PurePath)) and not isinstance(number(files), (int, float)):
        files = [files]
    if isinstance(files, Mapping):
        by_file = numbers({str(name): count for name, count in files.items()}, report)
        listing = [[name, int(count)] for name, count in by_file.items() if count - count == 0]
        tokens = sum(int(count) for count in by_file.values() if count - count == 0) if tokens is None else tokens
    elif isinstance(files, Sequence) and not isinstance(files, str):
        listing = [[str(name), None] for name in files]  # nobody knows their tokens
    fields = {
        "files": _count(get(loader, "num_files") if files is None else files),
        "tokens": get(loader, "num_tokens") if tokens is None else tokens,
        **{name: get(loader, name) for name in schema.DATASET[2:]},
    }
    return {**numbers(fields, report), **({"listing": listing} if listing is not None else {})}


def _count(files: object) -> object:
    """The number of files, from a number or several paths."""
    return len(files) if isinstance(files, Sized) and not isinstance(files, str) else files


def work(trainer: object) -> dict[str, speed_of_light.ModelPart]:
    """The work per token, from the config of a dense transformer, in the names of `transformers`."""
    config = getattr(trainer, "config", trainer)

    def first(*names: str) -> int:
        for name in names:
            if (value := get(config, name)) is not None:
                return int(required(value, name))
        raise Unusable(names[0], f"the model's config has no {' or '.join(names)}; pass nanoseconds per token instead")

    hidden, heads = first("hidden_size"), first("num_attention_heads", "num_query_heads")
    head = int(get(config, "head_dim") or get(config, "head_size") or hidden // heads)
    shared = int(get(config, "num_key_value_heads") or heads)
    return speed_of_light.work(
        layers=first("num_hidden_layers", "num_layers"),
        hidden=hidden,
        intermediate=first("intermediate_size"),
        qkv=head * (heads + 2 * shared),
        vocab=first("vocab_size"),
        attention=head * heads,
        context=first("seq_len", "sequence_length", "max_position_embeddings"),
    )
