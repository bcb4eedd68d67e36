"""The exceptions that scripts name in `except` clauses. Few are ever raised: nothing is raised in a training loop."""

from __future__ import annotations


class Error(Exception):
    """The base of all errors of W&B's client."""

    def __init__(self, message: str = "", context: object = None) -> None:
        super().__init__(message)
        self.message, self.context = message, context


class CommError(Error):
    """Something cannot be found or reached."""

    def __init__(self, message: str = "", exc: object = None) -> None:
        super().__init__(message)
        self.exc = exc


class AuthenticationError(CommError):
    """Never raised: there is no account."""


class UsageError(Error):
    """A call that cannot mean anything."""


class UnsupportedError(UsageError):
    """A call that needs W&B's server."""


class ConfigError(Error):
    """Never raised: a config value that may not change is reported and stays."""


class WandbCoreNotAvailableError(Error):
    """Never raised: there is no core process."""


class WaitTimeoutError(Error):
    """Never raised: nothing waits for a server."""
