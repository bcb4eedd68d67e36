"""Calls of Surogate's logger: their arguments are fitted to the method, and their mistakes never stop the training."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeAlias, TypeVar

from chiplog import Run
from chiplog.core import messages
from chiplog.core.values.text import words

TOKENS = {
    "log_step": "step_tokens",
    "log_eval": "eval_tokens",
}  # the documented calls name it `tokens`, the tables these

Method = TypeVar("Method", bound=Callable[..., None])
Report: TypeAlias = Callable[[str, str], None]  # an argument, and a sentence about it


class Unusable(Exception):
    """Raised inside a call for an argument that leaves nothing to log; the sentence names it and the reason."""

    def __init__(self, argument: str, sentence: str) -> None:
        super().__init__(sentence)
        self.argument = argument


def harmless(method: Method) -> Method:
    """Decorate a call so that it never raises: each mistake is reported once, and the rest is logged."""
    name, fitted = method.__name__, _Arguments(method)

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            if kwargs or not fitted.least <= len(args) <= fitted.most:
                args, kwargs = fitted.fit(args, kwargs, reporter(self.run, name))
            method(self, *args, **kwargs)
        except Unusable as error:
            reporter(self.run, name)(error.argument, str(error))
        except Exception as error:
            why = words(error)
            reporter(self.run, name)(why, f"{why}; training continues")

    return call  # type: ignore[return-value]


def reporter(run: Run, call: str) -> Report:
    """A function that reports mistakes of a call: once per run and argument, whatever its value; not on other ranks."""
    return _ignore if run.inert else partial(_report, run.id, call)


def shown(value: object) -> str:
    """A value for a sentence; never raises."""
    try:
        return f"{value!r:.100}"
    except Exception:
        return f"of type {type(value).__name__}"


def listed(names: Sequence[str], verb: bool = True) -> str:
    """`a is`, `a, b and c are`."""
    joined = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{joined} {'is' if len(names) == 1 else 'are'}" if verb else joined


class _Arguments:
    """The parameters of a method, to which calls are fitted."""

    def __init__(self, method: Callable[..., None]) -> None:
        parameters = list(inspect.signature(method).parameters.values())[1:]
        positional = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        self._call = method.__name__
        self._places = [one.name for one in positional]
        self._names = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        self._any_name = any(one.kind is one.VAR_KEYWORD for one in parameters)
        self.least = sum(one.default is one.empty for one in positional)
        unbounded = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        self.most = 1 << 30 if unbounded else len(positional)

    def fit(
        self, args: tuple[object, ...], kwargs: dict[str, object], report: Report
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments that the method accepts; surplus and missing ones are reported."""
        if (tokens := TOKENS.get(self._call)) is not None and "tokens" in kwargs:
            kwargs[tokens] = kwargs.pop("tokens")
        if len(args) > self.most:
            takes = f"takes {self.most} positional arguments ({', '.join(self._places)})"
            report("by place", f"{takes}, not {len(args)}; the others are left out")
            args = args[: self.most]
        for name in [name for name in self._places[: len(args)] if name in kwargs]:
            del kwargs[name]
            report(name, f"{name} is passed by position and by name; the positional one is logged")
        if not self._any_name:
            for name in kwargs.keys() - self._names:
                del kwargs[name]
                report(name, f"there is no argument {name!r}; the others are logged")
        if missing := [name for name in self._places[len(args) : self.least] if name not in kwargs]:
            if self._call not in TOKENS or not (args or kwargs):
                raise Unusable(missing[0], f"{listed(missing)} missing; nothing is logged")
            report("missing", f"{listed(missing)} missing; the rest is logged")
            kwargs.update(dict.fromkeys(missing))
        return args, kwargs


def _ignore(argument: str, sentence: str) -> None:
    """Report nothing."""


def _report(run: str, call: str, argument: str, sentence: str) -> None:
    messages.once(f"{call} {run} {argument}", f"{call}: {sentence}")
