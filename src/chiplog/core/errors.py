"""The mistakes a person can make at the door, each with what to do about it."""

from __future__ import annotations


class ChiplogError(Exception):
    """Anything chiplog raises on purpose."""


class BadSetting(ChiplogError, ValueError):
    """A setting that does not exist or does not fit."""


class UnknownSink(ChiplogError, ValueError):
    """A sink name nobody answers to."""


class MissingPackage(ChiplogError, ImportError):
    """A feature was asked for whose package is not installed."""


class Rejected(ChiplogError):
    """Raised by a sink whose service will never take this batch; it is brought again in halves, down to one record."""


class Lost(ChiplogError):
    """Raised by a sink that will never take anything again; it is not tried any more."""


class Anew(ChiplogError):
    """Raised by a sink's `restore`: the state is of another place, which has nothing of this one; all is sent again."""


class Unwritable(ChiplogError, OSError):
    """The run directory cannot be made or written."""


class RunExists(ChiplogError, FileExistsError):
    """`resume="never"`, and the run is there already."""


class RunNotFound(ChiplogError, FileNotFoundError):
    """No run under that path, id or token."""
