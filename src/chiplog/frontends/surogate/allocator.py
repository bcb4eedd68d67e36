"""An allocator's report: how much memory of each kind every segment of the training has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chiplog.frontends.surogate.calls import Report, Unusable, shown
from chiplog.frontends.surogate.parsing import number

KINDS = ("device", "managed", "pinned", "pageable")  # bytes of each
SEGMENTS = {
    "weights": "model weights",
    "gradients": "gradient buffers",
    "optimizer": "optimizer state: momentum, variance",
    "activations": "what the forward pass keeps for the backward pass",
    "lora": "LoRA adapter weights",
    "qlora": "QLoRA quantized weights and scales",
}


def report(
    stats: Mapping[str, Mapping[str, Any]] | Iterable[Mapping[str, Any]], problem: Report = lambda *_: None
) -> dict[str, Any]:
    """The data of an event `allocator`, from bytes by kind, by segment: `{"weights": {"device": 4 << 30}}`.

    Kinds that are not given are 0, and what is not a number is None. A segment may have any name; one without any of
    the kinds (a stack) is left out. Raises Unusable where no segment is one.
    """
    if not isinstance(stats, Mapping) and (isinstance(stats, str) or not isinstance(stats, Iterable)):
        raise Unusable("stats", f"stats is {shown(stats)}, not segments by name; nothing is logged")
    named = stats.items() if isinstance(stats, Mapping) else [(_name(one), one) for one in stats]
    found, wrong = [], []
    for name, one in named:
        if not isinstance(one, Mapping):
            wrong.append(f"the segment {name!r} is {shown(one)}, not bytes by {', '.join(KINDS)}")
        elif not one.keys().isdisjoint(KINDS):
            found.append({"name": str(name), **{kind: _bytes(one.get(kind, 0), kind, name, problem) for kind in KINDS}})
    if wrong and not found:
        raise Unusable("stats", f"{wrong[0]}; nothing is logged")
    for sentence in wrong:
        problem(sentence, f"{sentence}; the others are logged")
    return {"stats": found}


def _name(segment: Any) -> Any:
    return segment.get("name", "") if isinstance(segment, Mapping) else ""


def _bytes(value: Any, kind: str, segment: Any, problem: Report) -> int | None:
    got = number(value)
    if isinstance(got, (int, float)) and got - got == 0:
        return int(got)
    if value is not None:
        problem(f"{segment} {kind}", f"{kind} of {segment!r} is {shown(value)}, not a number; it is logged as null")
    return None
