"""What the stand-in reports: each thing once, on stderr, unless `WANDB_SILENT` is set. Reporting never raises."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from chiplog.core import messages
from chiplog.core.guarded import guarded_by
from chiplog.core.values.text import cut

P = ParamSpec("P")
T = TypeVar("T")


def say(text: str) -> None:
    """Report something now."""
    if os.environ.get("WANDB_SILENT", "").lower() not in ("true", "1"):
        messages.say(f"wandb stand-in: {text}")


def once(key: str, text: str) -> None:
    """Report something, but only the first time for this key."""
    if messages.first(f"wandb {key}"):
        say(text)


def not_kept(name: str, why: str = "there is no server") -> None:
    """Report that a call or an argument is accepted and has no effect."""
    once(f"not kept {name}", f"{name} is accepted and not kept: {why}")


def failed(what: str, error: BaseException) -> None:
    """Report an error that the script must not see; the same one only once."""
    once(f"{what} {type(error).__name__}", f"{what} failed; training continues: {cut(repr(error), 200)}")


def guarded(default: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator for what a training loop calls: an error is reported, and the default returned."""
    return guarded_by(lambda call, error: failed(f"wandb.{call}", error), default)
