"""What W&B has of what its SDK was given. The only place that looks behind the SDK's public doors.

The SDK takes rows at once and sends them when it likes, from a process of its own; killed in between, they are lost.
So an online run is asked for at the server: `historyLineCount`, which the SDK itself begins with when it resumes a run;
and the SDK is asked what it is still uploading. An offline run is looked for in its file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.apis.public.service_api import ServiceApi
from wandb.proto.wandb_internal_pb2 import Record
from wandb.sdk.lib.service.service_connection import WandbApiFailedError

from chiplog.core.errors import Refused

ANSWER = 10.0  # s for the server to say how many rows it has
BLOCK = 32 * 1024  # bytes of a `.wandb` file
CONFIG = "updating run metadata"  # what the SDK calls it
SOON = {"x_graphql_retry_max": 1, "x_graphql_retry_wait_min_seconds": 0.5}
REFUSALS = {  # by the status of its answer: what a person has to do
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
DELETED = "previously created and deleted"  # its words for an id that cannot be used again


class RunQueries:
    """Where to ask a server how many rows a run has there. It answers soon, or it is not there."""

    def __init__(self, settings: Any) -> None:
        self._api = ServiceApi(settings.model_copy(update=SOON), timeout=ANSWER)

    def rows(self, id: str, project: str, entity: str | None) -> int:
        """As many as the SDK goes on behind. The steps say nothing about that: others may have left some out."""
        return self.find(id, project, entity) or 0

    def find(self, id: str, project: str, entity: str | None) -> int | None:
        """The rows of a run that is there; None where it is not."""
        words = {"project": project, "entity": entity or None, "name": id}
        try:
            model = self._api.execute_graphql(QUERY, words, timeout=ANSWER).get("model") or {}
        except WandbApiFailedError as error:
            status = error.response.http_status if error.response is not None else 0
            if status in REFUSALS:
                raise Refused(f"W&B does not let this run in: {REFUSALS[status]}") from error
            raise ConnectionError(f"W&B cannot be reached: {error}") from error
        bucket = model.get("bucket")
        return int(bucket.get("historyLineCount") or 0) if bucket else None

    def is_deleted(self, id: str, project: str, entity: str | None) -> bool:
        """Whether the id was that of a run which somebody deleted; one that was never there is made by the question.

        Nothing else tells them apart, and the SDK would ask the same for as long as it may begin a run, a minute.
        """
        try:
            self._api.execute_graphql(
                CREATION, {"project": project, "entity": entity or None, "name": id}, timeout=ANSWER
            )
        except WandbApiFailedError as error:
            return DELETED in str(error)  # whatever else it is, the SDK will hear of it too
        return False


class Confirmation:
    """Says what is missing at W&B of one run of the SDK, which began it behind so many rows."""

    def __init__(self, run: Any, desk: RunQueries | None, rows: int) -> None:
        self._run, self._desk = run, desk
        self._known = rows
        self._log = OfflineLog(Path(run.settings.sync_file)) if run.offline else None

    def missing(self, rows: int, ending: bool = False) -> str | None:
        """In words, what has not arrived yet of so many rows and of everything else; None when all has.

        The SDK holds changes of the config back for five seconds, unless the run is `ending`.
        """
        if self._log is not None:
            self._known = self._log.rows()
        elif self._known < rows:
            self._known = max(self._known, self._count())
        if self._known < rows:
            return f"{self._known:,} of {rows:,} rows have arrived"
        return None if self._log is not None else self._busy(ending)

    def _count(self) -> int:
        assert self._desk is not None
        try:
            return self._desk.rows(self._run.id, self._run.project, self._run.entity)
        except ConnectionError:  # then it has confirmed nothing either
            return 0

    def _busy(self, ending: bool) -> str | None:
        """What the SDK is still uploading: config, files, artifacts."""
        answer = self._run._interface.deliver_poll_exit().wait_or(timeout=ANSWER)
        doing = answer.response.poll_exit_response.operation_stats.operations
        words = [f"{one.desc} {one.progress}".strip() for one in doing if not (ending and one.desc == CONFIG)]
        return ", ".join(words) or None


class OfflineLog:
    """The rows in a `.wandb` file as it grows: records of protobuf in the frames of a LevelDB log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._held = b""
        self._rows = 0

    def rows(self) -> int:
        """How many rows of history are in it now."""
        for record in self.read():
            self._rows += record.WhichOneof("record_type") == "history"
        return self._rows

    def read(self) -> Iterator[Record]:
        """The records that have come since the last call; one that is written half is left for the next."""
        try:
            data = self._path.read_bytes() if not self._offset else _from(self._path, self._offset)
        except FileNotFoundError:
            return
        base, at = self._offset, 0
        if base == 0:
            if len(data) < 7:
                return
            at = 7  # ":W&B", a magic number and a version
        while True:
            left = BLOCK - (base + at) % BLOCK
            if left < 7:
                at += left  # the end of a block that has no room for a head
                continue
            head = data[at : at + 7]
            length, kind = int.from_bytes(head[4:6], "little"), head[6] if len(head) == 7 else 0
            body = data[at + 7 : at + 7 + length]
            if len(head) < 7 or kind == 0 or len(body) < length:
                break
            if zlib.crc32(body, zlib.crc32(head[6:7])) != int.from_bytes(head[:4], "little"):
                break  # its bytes are still on their way
            at += 7 + length
            self._held = body if kind in (1, 2) else self._held + body  # whole, first, middle, last
            self._offset = base + at
            if kind in (1, 4):
                yield Record.FromString(self._held)


def _from(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()


def next_id(id: str, first: str) -> str:
    """What a deleted run goes on as: `run`, `run-2`, `run-3`, …"""
    number = id.removeprefix(first).lstrip("-")
    return f"{first}-{int(number) + 1 if number.isdigit() else 2}"
