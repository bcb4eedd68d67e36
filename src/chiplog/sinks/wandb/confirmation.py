"""How much W&B has of what its SDK was given. Like `client.py`, it uses private parts of the SDK.

The SDK accepts rows at once and sends them later, from a process of its own; if that is killed, they are lost. So we
ask the server for the rows of an online run: `historyLineCount`, after which the SDK itself resumes a run; and we ask
the SDK what it is still uploading. For an offline run we read its file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wandb.apis.public.service_api import ServiceApi
from wandb.sdk.lib.service.service_connection import WandbApiFailedError

from chiplog.core.errors import Refused
from chiplog.sinks.wandb.offline_log import OfflineLog

ANSWER = 10.0  # s for the server to respond
CONFIG = "updating run metadata"  # as the SDK calls it
SOON = {"x_graphql_retry_max": 1, "x_graphql_retry_wait_min_seconds": 0.5}
REFUSALS = {  # by HTTP status: what a person has to do
    401: "it does not know the key (401); see WANDB_API_KEY",
    402: "the account has to be paid for (402)",
    403: "the key has no right to write there (403); see WANDB_API_KEY, WANDB_ENTITY and the project",
}
QUERY = """query RunResumeStatus($project: String, $entity: String, $name: String!) {
  model(name: $project, entityName: $entity) { bucket(name: $name, missingOk: true) { historyLineCount } }
}"""

CREATION = """mutation UpsertBucket($project: String, $entity: String, $name: String!) {
  upsertBucket(input: {modelName: $project, entityName: $entity, name: $name}) { bucket { id } }
}"""
DELETED = "previously created and deleted"  # its words for an id that cannot be reused


class RunQueries:
    """Asks a server how many rows a run has. It answers soon, or counts as away."""

    def __init__(self, settings: Any) -> None:
        self._api = ServiceApi(settings.model_copy(update=SOON), timeout=ANSWER)

    def rows(self, id: str, project: str, entity: str | None) -> int:
        """The rows after which the SDK continues. Steps do not tell: others may have left some out."""
        return self.find(id, project, entity) or 0

    def find(self, id: str, project: str, entity: str | None) -> int | None:
        """The rows of a run; None if it does not exist."""
        words = {"project": project, "entity": entity or None, "name": id}
        try:
            model = self._api.execute_graphql(QUERY, words, timeout=ANSWER).get("model") or {}
        except WandbApiFailedError as error:
            status = error.response.http_status if error.response is not None else 0
            if status in REFUSALS:
                raise Refused(f"W&B denied access to this run: {REFUSALS[status]}") from error
            raise ConnectionError(f"W&B cannot be reached: {error}") from error
        bucket = model.get("bucket")
        return int(bucket.get("historyLineCount") or 0) if bucket else None

    def is_deleted(self, id: str, project: str, entity: str | None) -> bool:
        """Whether the run of this id was deleted; if it never existed, asking creates it.

        Nothing else tells the two apart, and the SDK would retry for as long as it may take to start a run, a minute.
        """
        try:
            self._api.execute_graphql(
                CREATION, {"project": project, "entity": entity or None, "name": id}, timeout=ANSWER
            )
        except WandbApiFailedError as error:
            return DELETED in str(error)  # any other error will reach the SDK too
        return False


class Confirmation:
    """Tells what W&B still lacks of one run of the SDK, which started after so many rows."""

    def __init__(self, run: Any, queries: RunQueries | None, rows: int) -> None:
        self._run, self._queries = run, queries
        self._rows = rows
        self._log = OfflineLog(Path(run.settings.sync_file)) if run.offline else None

    def missing(self, rows: int, ending: bool = False) -> str | None:
        """A description of what has not arrived yet of so many rows and everything else; None if all has.

        The SDK delays changes of the config for five seconds, unless the run is `ending`.
        """
        if self._log is not None:
            self._rows = self._log.rows()
        elif self._rows < rows:
            self._rows = max(self._rows, self._count())
        if self._rows < rows:
            return f"{self._rows:,} of {rows:,} rows have arrived"
        return None if self._log is not None else self._busy(ending)

    def _count(self) -> int:
        assert self._queries is not None
        try:
            return self._queries.rows(self._run.id, self._run.project, self._run.entity)
        except ConnectionError:  # then nothing is confirmed either
            return 0

    def _busy(self, ending: bool) -> str | None:
        """What the SDK is still uploading: config, files, artifacts."""
        answer = self._run._interface.deliver_poll_exit().wait_or(timeout=ANSWER)
        doing = answer.response.poll_exit_response.operation_stats.operations
        words = [f"{one.desc} {one.progress}".strip() for one in doing if not (ending and one.desc == CONFIG)]
        return ", ".join(words) or None


def next_id(id: str, first: str) -> str:
    """The id under which a deleted run continues: `run-2`, `run-3`, …"""
    number = id.removeprefix(first).lstrip("-")
    return f"{first}-{int(number) + 1 if number.isdigit() else 2}"
