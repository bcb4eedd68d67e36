"""What a service must not make us print or store: the credentials that it may have been given."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from chiplog.core.values.redact import LEAST_SECRET, is_secret_key, secret_values
from chiplog.sinks.shared import dotenv


def secrets_of(options: Mapping[str, object], cwd: str, environ: Mapping[str, str]) -> list[str]:
    """The secrets in the environment, in the project's `.env`, in `~/.amsc.env` and in a sink's own options; the
    longest first."""
    secrets = {*secret_values(dotenv.load(cwd, environ)), *_in_options(options)}
    return sorted(secrets, key=len, reverse=True)


def _in_options(options: Mapping[str, object]) -> list[str]:
    secrets: list[str] = []
    for name, value in options.items():
        if isinstance(value, Mapping):  # headers may have any name
            secrets += [one for one in value.values() if isinstance(one, str)] if name == "headers" else []
            secrets += _in_options(value)
        elif isinstance(value, str):
            secrets += [value] if is_secret_key(name) else [_password(value)]
    return [secret for secret in secrets if len(secret) >= LEAST_SECRET]


def _password(text: str) -> str:
    try:
        return urlsplit(text).password or ""
    except ValueError:
        return ""
