"""The hooks that a framework calls during training: whatever fails in one is reported once and never raised."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

from chiplog.core import messages
from chiplog.core.guarded import failed, guarded_by
from chiplog.core.values.text import cut

P = ParamSpec("P")
T = TypeVar("T")


class Framework(NamedTuple):
    """The name of a framework, its package, and the versions of it that the hooks are written for."""

    name: str
    package: str
    versions: str

    def report(self, hook: str, error: BaseException) -> None:
        """Report what a hook raised; if it may have another shape in this version, also the versions that work."""
        what = f"{self.name}: {hook}"
        if not isinstance(error, (TypeError, AttributeError, KeyError)):
            failed(what, error)
            return
        reason = f"{what} failed; training continues: {cut(repr(error), 200)}; {self.shape()}"
        messages.once(f"{what} {type(error).__name__}", reason)

    def shape(self) -> str:
        """What is installed and what works, for a message about a hook of another shape."""
        installed = getattr(sys.modules.get(self.package), "__version__", "of an unknown version")
        return f"{self.name} {installed} is installed, and chiplog works with {self.versions}"


def hook(framework: Framework, default: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator for a hook, which returns the default if it fails."""
    return guarded_by(framework.report, default)
