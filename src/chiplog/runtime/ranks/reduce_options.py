"""What `init(reduce=...)` asks for, in words."""

from __future__ import annotations

import msgspec

from chiplog.core.errors import BadSetting
from chiplog.metrics.ranks.statistics import Extras

AUTOMATIC = 384  # ranks up to which every step is reduced where nothing is said
SPARSE = 10  # steps between two that are, beyond
WORDS = (
    *("on", "off", "sync", "async", "all", "every=N", "deadline=SECONDS", "count", "where", "pNN", "counters"),
    *("nan", "order", "late"),
)


class ReduceOptions(msgspec.Struct, frozen=True):
    """How statistics across ranks are made."""

    asked: bool = True  # somebody wants them; otherwise they are made where the ranks are there
    sync: bool = False  # `log` waits for them, and its row has them
    everyone: bool = False  # every rank gets them, not rank 0 alone
    every: int = 1  # steps
    deadline: float = 10.0  # s that a rank is waited for
    counters: bool = False  # also counters and hyperparameters
    extras: Extras = Extras()
    order: bool = False  # rows are lined up one by one, by names and order; synchronously
    late: bool = False  # the process group may be set up after the run has begun


def plan_of(reduce: bool | str | None, world: int, no_reduce: str) -> ReduceOptions | None:
    """The plan for what was said, and for how many ranks there are; None where there is nothing to do."""
    if no_reduce not in ("", "0", "false") or world < 2 or reduce is False:
        _parse("on" if reduce in (None, True, False) else str(reduce))  # a mistake is one wherever it is made
        return None
    if reduce is None or reduce is True:
        return ReduceOptions(asked=reduce is True, every=SPARSE if reduce is None and world > AUTOMATIC else 1)
    return _parse(str(reduce))


def _parse(text: str) -> ReduceOptions | None:
    plan: ReduceOptions | None = ReduceOptions()
    sync = everyone = off = False
    chosen: set[str] = set()
    every, deadline, quantiles = 1, 10.0, []
    for word in filter(None, (word.strip().lower() for word in text.split(","))):
        key, _, value = word.partition("=")
        if word in ("off", "false", "0"):
            off = True
        elif word == "sync":
            sync = True
        elif word == "all":
            everyone = True
        elif word in ("count", "where", "counters", "nan", "order", "late"):
            chosen.add(word)
        elif key == "every" and value.isdecimal() and int(value) > 0:
            every = int(value)
        elif key == "deadline" and value.replace(".", "", 1).isdecimal() and float(value) > 0:
            deadline = float(value)
        elif word[:1] == "p" and word[1:].isdecimal() and int(word[1:]) <= 100:
            quantiles.append(int(word[1:]))
        elif word not in ("on", "true", "1", "async"):
            raise BadSetting(f"reduce = {text!r}: {word!r} is not one of its words; there are: {', '.join(WORDS)}")
    extras = Extras("count" in chosen, "where" in chosen, tuple(quantiles), "nan" in chosen)
    order, late = sync and "order" in chosen, "late" in chosen
    plan = ReduceOptions(True, sync, everyone, every, deadline, "counters" in chosen, extras, order, late)
    return None if off else plan
