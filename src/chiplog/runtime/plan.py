"""What `init(reduce=...)` asks for, in words."""

from __future__ import annotations

import msgspec

from chiplog.core.errors import BadSetting
from chiplog.metrics.stats import Extras

AUTOMATIC = 384  # ranks up to which every step is reduced where nothing is said
SPARSE = 10  # steps between two that are, beyond
WORDS = ("on", "off", "sync", "async", "all", "every=N", "deadline=SECONDS", "count", "where", "pNN", "counters")


class Plan(msgspec.Struct, frozen=True):
    """How statistics across ranks are made."""

    sync: bool = False  # `log` waits for them, and its row has them
    everyone: bool = False  # every rank gets them, not rank 0 alone
    every: int = 1  # steps
    deadline: float = 10.0  # s that a rank is waited for
    counters: bool = False  # also counters and hyperparameters
    extras: Extras = Extras()


def plan_of(reduce: bool | str | None, world: int, no_reduce: str) -> Plan | None:
    """The plan for what was said, and for how many ranks there are; None where there is nothing to do."""
    if no_reduce not in ("", "0", "false") or world < 2 or reduce is False:
        _parse("on" if reduce in (None, True, False) else str(reduce))  # a mistake is one wherever it is made
        return None
    if reduce is None or reduce is True:
        return Plan(every=SPARSE if reduce is None and world > AUTOMATIC else 1)
    return _parse(str(reduce))


def _parse(text: str) -> Plan | None:
    plan: Plan | None = Plan()
    sync = everyone = count = where = counters = off = False
    every, deadline, quantiles = 1, 10.0, []
    for word in filter(None, (word.strip().lower() for word in text.split(","))):
        key, _, value = word.partition("=")
        if word in ("off", "false", "0"):
            off = True
        elif word == "sync":
            sync = True
        elif word == "all":
            everyone = True
        elif word == "count":
            count = True
        elif word == "where":
            where = True
        elif word == "counters":
            counters = True
        elif key == "every" and value.isdecimal() and int(value) > 0:
            every = int(value)
        elif key == "deadline" and value.replace(".", "", 1).isdecimal() and float(value) > 0:
            deadline = float(value)
        elif word[:1] == "p" and word[1:].isdecimal() and int(word[1:]) <= 100:
            quantiles.append(int(word[1:]))
        elif word not in ("on", "true", "1", "async"):
            raise BadSetting(f"reduce = {text!r}: {word!r} is no word of it; there are: {', '.join(WORDS)}")
    plan = Plan(sync, everyone, every, deadline, counters, Extras(count, where, tuple(quantiles)))
    return None if off else plan
