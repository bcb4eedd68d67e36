"""How MLflow is reached: at which address, as whom, and with how much patience.

MLflow takes these from variables of the environment and as no arguments; in the relay that is a process of its own.
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

# The courier tries again, from the journal: the client need not, and so a server that hangs holds no thread for long.
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # a connection that was kept alive for too long is no failure
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}

STORE = "sqlite:///mlflow.db"  # where nothing else is named

_keys: set[str] = set()  # that are sent with every request


def variables(identity: Identity, environ: Mapping[str, str]) -> dict[str, str]:
    """What is set: in the environment, before the project's `.env`, before `~/.amsc.env`, before our patience."""
    return PATIENCE | dotenv.known(identity.cwd, environ)


def connect(
    identity: Identity, environ: Mapping[str, str], known: Mapping[str, str], uri: str | None = None
) -> MlflowClient:
    """A client for the store that is named; nothing is asked yet."""
    where = located(uri or known.get("MLFLOW_TRACKING_URI") or STORE, Path(identity.cwd or "/"))
    _authorise(environ, known)
    if where.startswith("sqlite:"):
        _tell("_MLFLOW_SERVER_ARTIFACT_ROOT", f"{identity.cwd}/mlruns")  # the relay's own folder is none to write to
    mlflow.telemetry.set_telemetry_client()  # reads again that there is to be none
    return MlflowClient(where)


def sign_in(cwd: str, environ: Mapping[str, str]) -> str:
    """Let MLflow in this process know what the files of credentials say, and return where its store is."""
    known = dotenv.known(cwd, environ)
    _authorise(environ, known)
    return located(known.get("MLFLOW_TRACKING_URI") or STORE, Path(cwd or "/"))


def _authorise(environ: Mapping[str, str], known: Mapping[str, str]) -> None:
    for name, value in known.items():
        if name.startswith(("MLFLOW_", "AWS_")) and environ.get(name) != value:
            _tell(name, value)
    if known.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("1", "true", "yes"):
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # it was asked for, once
    if (key := known.get("AMSC_API_KEY")) and key not in _keys:
        _keys.add(key)
        header_providers.register(lambda: _ApiKey(key))


def located(uri: str, cwd: Path) -> str:
    """A local store as seen from the training's folder: the relay is elsewhere."""
    if uri.startswith("sqlite:///") and not uri.startswith("sqlite:////"):
        return f"sqlite:///{cwd / uri.removeprefix('sqlite:///')}"
    if "://" in uri or uri.startswith(("databricks", "uc:")):
        return uri
    return (cwd / uri.removeprefix("file:")).as_uri()


class _ApiKey(RequestHeaderProvider):  # type: ignore[misc]
    """The key of the American Science Cloud, which is no header that MLflow knows."""

    def __init__(self, key: str) -> None:
        self._key = key

    def in_context(self) -> bool:
        return True

    def request_headers(self) -> dict[str, str]:
        return {"X-API-Key": self._key}


def _tell(name: str, value: str) -> None:
    _EnvironmentVariable(name, str, None).set(value)
