"""What Surogate's calls take, in any form that Python has for it: objects, mappings, numbers of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chiplog.core import values
from chiplog.frontends.surogate import fields
from chiplog.metrics import sol


class GPUUtilInfo:
    """What a GPU is doing, as `log_gpu_state` takes it; None is not known."""

    NAMES = (
        *("clock", "max_clock", "power", "power_limit", "fan", "temperature", "temp_slowdown", "mem_free", "mem_total"),
        *("mem_reserved", "gpu_utilization", "mem_utilization", "throttle_reason", "pcie_rx", "pcie_tx"),
    )
    __slots__ = NAMES

    def __init__(self, **given: Any) -> None:
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


def number(value: Any) -> Any:
    """A number of any library as the number it is, read here and now as Surogate does."""
    try:
        found = values.number(value)
    except Exception:
        return value
    return value if found is None else found


def gpu(state: Any) -> dict[str, Any]:
    """The fields of a GPU as the table has them, from a `GPUUtilInfo` or anything with its fields or the table's."""
    found = {}
    for name in (*GPUUtilInfo.NAMES, *_NAMES_OF_THE_TABLE.values()):
        if (value := get(state, name)) is not None:
            found[_NAMES_OF_THE_TABLE.get(name, name)] = value
    if not found.get("dram_total"):
        found.pop("dram_total", None)  # 0 is not known
    return found


def get(thing: Any, name: str) -> Any:
    """A field of a mapping or an object; called, where it is a method."""
    value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
    return value() if callable(value) else value


def dataset(loader: Any) -> dict[str, Any]:
    """The data of an event `dataset`, but for its split; files by name are listed for the console."""
    files, tokens = get(loader, "files"), get(loader, "tokens")
    listing = None
    if isinstance(files, Mapping):
        listing = [[str(name), int(count)] for name, count in files.items()]
        tokens = sum(files.values()) if tokens is None else tokens
    names = get(loader, "num_files") if files is None else files
    found = {
        "files": names if names is None or isinstance(names, int) else len(names),
        "tokens": get(loader, "num_tokens") if tokens is None else tokens,
        **{name: get(loader, name) for name in fields.DATASET[2:]},
        "listing": listing,
    }
    return {name: value for name, value in found.items() if value is not None}


def work(trainer: Any) -> dict[str, sol.Part]:
    """The work of a token, from the config of a dense transformer as `transformers` names its parts."""
    config = getattr(trainer, "config", trainer)

    def first(*names: str) -> int:
        for name in names:
            if (value := get(config, name)) is not None:
                return int(value)
        raise TypeError(f"the model's config has no {' or '.join(names)}; give nanoseconds a token instead")

    hidden, heads = first("hidden_size"), first("num_attention_heads", "num_query_heads")
    head = int(get(config, "head_dim") or get(config, "head_size") or hidden // heads)
    shared = int(get(config, "num_key_value_heads") or heads)
    return sol.work(
        layers=first("num_hidden_layers", "num_layers"),
        hidden=hidden,
        intermediate=first("intermediate_size"),
        qkv=head * (heads + 2 * shared),
        vocab=first("vocab_size"),
        attention=head * heads,
        context=first("seq_len", "sequence_length", "max_position_embeddings"),
    )
