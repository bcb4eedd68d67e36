"""A decorator for what a framework calls during training: an error is reported once, and training goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from chiplog.core import messages
from chiplog.core.values.text import cut

P = ParamSpec("P")
T = TypeVar("T")


def guarded(who: str, default: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """The call returns the default if it raises; `who` is the framework, for the message."""
    return guarded_by(lambda call, error: failed(f"{who}: {call}", error), default)


def guarded_by(report: Callable[[str, BaseException], None], default: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """The same, with a report of one's own, which gets the name of the call and what it raised."""

    def decorate(call: Callable[P, T]) -> Callable[P, T]:
        @wraps(call)
        def guarded_call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return call(*args, **kwargs)
            except Exception as error:
                report(call.__name__, error)
                return default

        return guarded_call

    return decorate


def failed(what: str, error: BaseException) -> None:
    """Report an error that training must not see; the same one only once."""
    messages.once(f"{what} {type(error).__name__}", f"{what} failed; training continues: {cut(repr(error), 200)}")
