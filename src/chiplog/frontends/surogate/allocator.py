"""An allocator's report: the memory of each kind that every segment of the training uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chiplog.core.records import Plain
from chiplog.frontends.surogate.arguments import number
from chiplog.frontends.surogate.safe_calls import Report, Unusable, shown

KINDS = ("device", "managed", "pinned", "pageable")  # bytes of each
SEGMENTS = {
    "weights": "model weights",
    "gradients": "gradient buffers",
    "optimizer": "optimizer state: momentum, variance",
    "activations": "activations kept for the backward pass",
    "lora": "LoRA adapter weights",
    "qlora": "QLoRA quantized weights and scales",
}


def report(
    stats: Mapping[str, Mapping[str, object]] | Iterable[Mapping[str, object]], problem: Report = lambda *_: None
) -> dict[str, Plain]:
    """The data of an event `allocator`, from bytes by segment and kind: `{"weights": {"device": 4 << 30}}`.

    A missing kind is 0, and a value that is not a number is None. A segment may have any name; one without any of the
    kinds (a stack) is left out. Raises Unusable if there is no usable segment.
    """
    if not isinstance(stats, Mapping) and (isinstance(stats, str) or not isinstance(stats, Iterable)):
        raise Unusable("stats", f"stats is {shown(stats)}, not segments by name; nothing is logged")
    named = stats.items() if isinstance(stats, Mapping) else [(_name(one), one) for one in stats]
    segments, wrong = [], []
    for name, one in named:
        if not isinstance(one, Mapping):
            wrong.append(f"the segment {name!r} is {shown(one)}, not bytes by {', '.join(KINDS)}")
        elif not one.keys().isdisjoint(KINDS):
            amounts = {kind: _bytes(one.get(kind, 0), kind, name, problem) for kind in KINDS}
            segments.append({"name": str(name), **amounts})
    if wrong and not segments:
        raise Unusable("stats", f"{wrong[0]}; nothing is logged")
    for sentence in wrong:
        problem(sentence, f"{sentence}; the others are logged")
    return {"stats": segments}


def _name(segment: object) -> object:
    return segment.get("name", "") if isinstance(segment, Mapping) else ""


def _bytes(value: object, kind: str, segment: object, problem: Report) -> int | None:
    amount = number(value)
    if isinstance(amount, (int, float)) and amount - amount == 0:
        return int(amount)
    if value is not None:
        problem(f"{segment} {kind}", f"{kind} of {segment!r} is {shown(value)}, not a number; it is logged as null")
    return None
