"""How to reach MLflow: its address, credentials and timeouts.

MLflow reads these from environment variables, not from arguments; the relay has an environment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import mlflow.telemetry
import urllib3
from mlflow.environment_variables import _EnvironmentVariable
from mlflow.tracking import MlflowClient
from mlflow.tracking.request_header.abstract_request_header_provider import RequestHeaderProvider
from mlflow.tracking.request_header.registry import _request_header_provider_registry as header_providers

from chiplog.core.identity import Identity
from chiplog.sinks.shared import dotenv

# The courier retries from the journal, so the client need not, and a server that hangs never blocks a thread for long.
TIMEOUTS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # a connection that was kept alive for too long is not a failure
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
    # A redirect is an error: our header with a key would follow it to another host, unlike `Authorization`.
    "MLFLOW_ALLOW_HTTP_REDIRECTS": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}

STORE = "sqlite:///mlflow.db"  # the default

_keys: set[str] = set()  # sent with every request


def variables(identity: Identity, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, then the project's `.env`, then `~/.amsc.env`, then our timeouts."""
    return TIMEOUTS | dotenv.load(identity.cwd, environ)


def connect(
    identity: Identity, environ: Mapping[str, str], settings: Mapping[str, str], uri: str | None = None
) -> MlflowClient:
    """A client for a store; does not connect yet."""
    where = located(uri or settings.get("MLFLOW_TRACKING_URI") or STORE, Path(identity.cwd or "/"))
    _authorise(environ, settings)
    if where.startswith("sqlite:"):
        _set("_MLFLOW_SERVER_ARTIFACT_ROOT", f"{identity.cwd}/mlruns")  # the relay's own folder is temporary
    mlflow.telemetry.set_telemetry_client()  # makes it read that telemetry is off
    return MlflowClient(where)


def sign_in(cwd: str, environ: Mapping[str, str]) -> str:
    """Pass the credentials from files to MLflow in this process; the address of its store."""
    settings = dotenv.load(cwd, environ)
    _authorise(environ, settings)
    return located(settings.get("MLFLOW_TRACKING_URI") or STORE, Path(cwd or "/"))


def _authorise(environ: Mapping[str, str], settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if name.startswith(("MLFLOW_", "AWS_")) and environ.get(name) != value:
            _set(name, value)
    if settings.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("1", "true", "yes"):
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the user chose it
    if (key := settings.get("AMSC_API_KEY")) and key not in _keys:
        _keys.add(key)
        header_providers.register(lambda: _ApiKey(key))


def located(uri: str, cwd: Path) -> str:
    """A local store relative to the folder of the training; the relay has another one."""
    if uri.startswith("sqlite:///") and not uri.startswith("sqlite:////"):
        return f"sqlite:///{cwd / uri.removeprefix('sqlite:///')}"
    if "://" in uri or uri.startswith(("databricks", "uc:")):
        return uri
    return (cwd / uri.removeprefix("file:")).as_uri()


class _ApiKey(RequestHeaderProvider):  # type: ignore[misc]
    """The key of the American Science Cloud, in a header that MLflow does not know."""

    def __init__(self, key: str) -> None:
        self._key = key

    def in_context(self) -> bool:
        return True

    def request_headers(self) -> dict[str, str]:
        return {"X-API-Key": self._key}


def _set(name: str, value: str) -> None:
    _EnvironmentVariable(name, str, None).set(value)
