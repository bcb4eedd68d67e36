"""What Surogate's calls take, in any form that Python has for it: objects, mappings, numbers of other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from pathlib import PurePath
from typing import Any

from chiplog.core.values import convert
from chiplog.frontends.surogate import schema
from chiplog.frontends.surogate.calls import Report, Unusable, shown
from chiplog.metrics import speed_of_light


class GPUUtilInfo:
    """What a GPU is doing, as `log_gpu_state` takes it; None is not known."""

    NAMES = (
        *("clock", "max_clock", "power", "power_limit", "fan", "temperature", "temp_slowdown", "mem_free", "mem_total"),
        *("mem_reserved", "gpu_utilization", "mem_utilization", "throttle_reason", "pcie_rx", "pcie_tx"),
    )
    __slots__ = NAMES

    def __init__(self, **given: Any) -> None:
        given = {_NAMES_OF_THE_CLASS.get(name, name): value for name, value in given.items()}
        for name in self.NAMES:
            setattr(self, name, given.pop(name, "" if name == "throttle_reason" else 0))
        if given:
            raise TypeError(f"a GPU has no {next(iter(given))!r}; it has: {', '.join(self.NAMES)}")


# How the table of GPU metrics calls what `GPUUtilInfo` has.
_NAMES_OF_THE_TABLE = {
    "gpu_utilization": "gpu_util",
    "mem_utilization": "mem_util",
    "mem_free": "dram_free",
    "mem_total": "dram_total",
    "mem_reserved": "dram_reserved",
    "throttle_reason": "throttle",
}
_NAMES_OF_THE_CLASS = {ours: theirs for theirs, ours in _NAMES_OF_THE_TABLE.items()}


_TEXTS = ("id", "name", "uuid")  # of a GPU model
LONGEST = 400  # characters of a text that may be a number


def number(value: Any) -> Any:
    """A number of any library, or in a text, as the number it is, read here and now as Surogate does; anything else as
    it is."""
    if isinstance(value, str):
        return _of_text(value)
    try:
        found = convert.number(value)
    except Exception:
        return value
    return value if found is None else found


def _of_text(text: str) -> int | float | str:
    if len(text) <= LONGEST:
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                pass
    return text


def needed(value: Any, argument: str) -> int | float:
    """A number that a call cannot do without; raises Unusable."""
    found = number(value)
    if not isinstance(found, (int, float)) or found - found != 0:
        raise Unusable(argument, f"{argument} is {shown(value)}, not a number; nothing is logged")
    return found


def numbers(values: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Those that are numbers; what is not is reported and left out."""
    got = {name: number(value) for name, value in values.items() if value is not None}
    found = {name: value for name, value in got.items() if isinstance(value, (int, float))}
    if wrong := [name for name in got if name not in found]:
        others = f", and {len(wrong) - 1} more are not" if len(wrong) > 1 else ""
        report(wrong[0], f"{wrong[0]} is {shown(got[wrong[0]])}, not a number{others}; the rest is logged")
    return found


def loss(value: Any, report: Report) -> int | float:
    """A loss as the number it is; NaN where it is not one, so that its step is there and somebody notices."""
    found = number(value)
    if isinstance(found, (int, float)):
        return found
    report("loss", f"loss is {shown(value)}, not a number; it is logged as NaN")
    return float("nan")


def step(value: Any) -> Any:
    """A step as Surogate has them: 5.0 is 5."""
    found = number(value)
    return int(found) if isinstance(found, float) and found.is_integer() else found


def gpu(state: Any, report: Report) -> dict[str, Any]:
    """The fields of a GPU as the table has them, from a `GPUUtilInfo` or anything with its fields or the table's."""
    names = (*GPUUtilInfo.NAMES, *_NAMES_OF_THE_TABLE.values())
    _check(state, "gpu_util", names)
    given = {_NAMES_OF_THE_TABLE.get(name, name): value for name in names if (value := get(state, name)) is not None}
    reason = given.pop("throttle", None)
    found = numbers(given, report)
    if not found.get("dram_total"):
        found.pop("dram_total", None)  # 0 is not known
    return found if reason is None else {**found, "throttle": str(reason)}


def gpu_model(gpu: Any, more: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The fields of a GPU as it was found, from a mapping or an object, and by keyword."""
    if gpu is not None or not more:
        _check(gpu, "gpu", schema.GPU_MODEL)
    given = {name: value for name in schema.GPU_MODEL if (value := get(gpu, name)) is not None}
    given.update(more)
    texts = {name: value for name, value in given.items() if name in _TEXTS or name not in schema.GPU_MODEL}
    return texts | numbers({name: value for name, value in given.items() if name not in texts}, report)


def _check(thing: Any, argument: str, names: Iterable[str]) -> None:
    """Raise Unusable for what has none of these fields."""
    if not any(name in thing if isinstance(thing, Mapping) else hasattr(thing, name) for name in names):
        known = ", ".join(dict.fromkeys(names))
        raise Unusable(argument, f"{argument} is {shown(thing)}, which has none of {known}; nothing is logged of it")


def get(thing: Any, name: str) -> Any:
    """A field of a mapping or an object; called, where it is a method."""
    value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
    return value() if callable(value) else value


def dataset(loader: Any, argument: str, report: Report) -> dict[str, Any]:
    """The data of an event `dataset`, but for its split; files by name are listed for the console."""
    _check(loader, argument, (*schema.DATASET, "num_files", "num_tokens"))
    files, tokens = get(loader, "files"), get(loader, "tokens")
    listing = None
    if isinstance(files, Mapping):
        by_file = numbers({str(name): count for name, count in files.items()}, report)
        listing = [[name, int(count)] for name, count in by_file.items() if count - count == 0]
        tokens = sum(count for _, count in listing) if tokens is None else tokens
    found = {
        "files": _count(get(loader, "num_files") if files is None else files),
        "tokens": get(loader, "num_tokens") if tokens is None else tokens,
        **{name: get(loader, name) for name in schema.DATASET[2:]},
    }
    return {**numbers(found, report), **({"listing": listing} if listing is not None else {})}


def _count(files: Any) -> Any:
    """How many files these are: a number, one path, or several."""
    if isinstance(number(files), (int, float)):
        return files
    if isinstance(files, (str, PurePath)):
        return 1
    return len(files) if isinstance(files, Sized) else files


def work(trainer: Any) -> dict[str, speed_of_light.ModelPart]:
    """The work of a token, from the config of a dense transformer as `transformers` names its parts."""
    config = getattr(trainer, "config", trainer)

    def first(*names: str) -> int:
        for name in names:
            if (value := get(config, name)) is not None:
                return int(needed(value, name))
        raise Unusable(names[0], f"the model's config has no {' or '.join(names)}; give nanoseconds a token instead")

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
