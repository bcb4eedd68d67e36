"""The options of `init(reduce=...)`."""

from __future__ import annotations

import msgspec

from chiplog.core.errors import BadSetting
from chiplog.metrics.ranks.statistics import Extras

AUTOMATIC = 384  # ranks up to which every step is reduced by default
SPARSE = 10  # with more ranks: steps from one that is reduced to the next
LAST = 2**63  # steps that are sent are less
WORDS = (
    *("on", "off", "sync", "async", "all", "every=N", "deadline=SECONDS", "count", "where", "pNN", "counters"),
    *("nan", "order", "late"),
)


class ReduceOptions(msgspec.Struct, frozen=True):
    """How to compute statistics across ranks."""

    asked: bool = True  # the user wants them; otherwise they are computed if the ranks can reach each other
    sync: bool = False  # `log` waits for them, and returns them with its row
    everyone: bool = False  # every rank gets them, not only rank 0
    every: int = 1  # steps
    deadline: float = 10.0  # s to wait for a rank
    counters: bool = False  # also for counters and hyperparameters
    extras: Extras = Extras()
    order: bool = False  # match rows one by one, by names and order; with `sync`
    late: bool = False  # the process group may be set up after the run has started

    def includes(self, step: int | float) -> bool:
        """Whether a step is reduced."""
        return is_sent(step) and (self.every <= 1 or step % self.every == 0)


def is_sent(step: int | float) -> bool:
    """Whether a step can be sent at all: it is a number, and fits into 64 bits."""
    return -LAST < step < LAST


def options_for(reduce: bool | str | None, world: int, no_reduce: str) -> ReduceOptions | None:
    """The options for a setting and a number of ranks; None if there is nothing to compute."""
    if no_reduce not in ("", "0", "false") or world < 2 or reduce is False:
        _parse("on" if reduce in (None, True, False) else str(reduce))  # a mistake is reported everywhere
        return None
    if reduce is None or reduce is True:
        return ReduceOptions(asked=reduce is True, every=SPARSE if reduce is None and world > AUTOMATIC else 1)
    return _parse(str(reduce))


def _parse(text: str) -> ReduceOptions | None:
    chosen: set[str] = set()
    every, deadline, quantiles = 1, 10.0, []
    for word in filter(None, (word.strip().lower() for word in text.split(","))):
        key, _, value = word.partition("=")
        if word in ("sync", "all", "count", "where", "counters", "nan", "order", "late"):
            chosen.add(word)
        elif word in ("off", "false", "0"):
            chosen.add("off")
        elif key == "every" and value.isdecimal() and int(value) > 0:
            every = int(value)
        elif key == "deadline" and value.replace(".", "", 1).isdecimal() and float(value) > 0:
            deadline = float(value)
        elif word[:1] == "p" and word[1:].isdecimal() and int(word[1:]) <= 100:
            quantiles.append(int(word[1:]))
        elif word not in ("on", "true", "1", "async"):
            raise BadSetting(f"reduce={text!r}: unknown option {word!r}; available: {', '.join(WORDS)}")
    if "off" in chosen:
        return None
    return ReduceOptions(
        sync="sync" in chosen,
        everyone="all" in chosen,
        every=every,
        deadline=deadline,
        counters="counters" in chosen,
        extras=Extras("count" in chosen, "where" in chosen, tuple(quantiles), "nan" in chosen),
        order={"sync", "order"} <= chosen,
        late="late" in chosen,
    )
