"""The errors chiplog raises; each message ends with what to do."""

from __future__ import annotations

from chiplog.core.control_characters import clean


class ChiplogError(Exception):
    """The base of every error that chiplog raises on purpose.

    A traceback shows its message as it is, and names in it may be those of a run that somebody else made.
    """

    def __str__(self) -> str:
        return clean(super().__str__())


class BadSetting(ChiplogError, ValueError):
    """An unknown setting, or a value that it does not accept."""


class BadStep(ChiplogError, TypeError):
    """A step that is not a number."""


class NotStored(ChiplogError, AttributeError):
    """An attribute was assigned to a run that the run does not store."""


class UnknownSink(ChiplogError, ValueError):
    """A sink name that is not registered."""


class MissingPackage(ChiplogError, ImportError):
    """A feature needs a package that is not installed."""


class Rejected(ChiplogError):
    """Raised by a sink whose service will never accept this batch; delivery retries in halves, down to one record."""


class RejectedByService(Rejected):
    """Raised by a sink whose service answered that it does not accept a batch.

    It concerns the record only if the service accepts others; one that rejects everything is treated as an outage.
    A sink that raises it counts in `answered` the requests that its service accepted.
    """


class Refused(ChiplogError):
    """Raised by a sink whose service accepts nothing until a person acts, for example by adding an API key.

    Delivery retries it, but the end of a run does not wait for it.
    """


class SinkLost(ChiplogError):
    """Raised by a sink that can never accept anything again; delivery stops for good."""


class NeedsRelay(ChiplogError):
    """Raised by the sink of a service that cannot continue in this process; the relay process delivers the rest."""


class Unmet(Refused, SinkLost):
    """Raised by a sink whose service cannot take the run on the terms a person set; reported once, not tried again."""


class RestartDelivery(ChiplogError):
    """Raised by `restore` if the saved state belongs to another destination: delivery starts over."""


class Unwritable(ChiplogError, OSError):
    """The run directory cannot be created or written."""


class Unsupported(ChiplogError, OSError):
    """This operating system lacks what writing a run needs."""


class RunExists(ChiplogError, FileExistsError):
    """`resume="never"`, but the run exists."""


class RunNotFound(ChiplogError, FileNotFoundError):
    """No run matches that path, id or token."""


class UnknownSeries(ChiplogError, KeyError):
    """No series, rank or attempt of a run has this name."""

    def __str__(self) -> str:
        return clean(Exception.__str__(self))


class UnknownTable(UnknownSeries):
    """There is no table of this name."""


class BadQuery(ChiplogError, ValueError):
    """A query over runs that was not understood."""
