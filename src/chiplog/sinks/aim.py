"""Aim: a run in an Aim repository, local or behind an Aim server.

Aim keeps one value per series and step, so a batch that arrives twice is stored once, and if a step is logged again the
newer value stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy
from aim.sdk.logging import LogRecord
from aim.sdk.objects import Distribution, Image
from aim.sdk.objects import Text as AimText
from aim.sdk.repo import Repo
from aim.sdk.repo_utils import get_repo
from aim.sdk.run import Run
from aim.sdk.utils import search_aim_repo

from chiplog.core.errors import Rejected
from chiplog.core.identity import Identity
from chiplog.core.records import Alert, AnyRecord, Event, File, HistogramRecord, Number, Plain, TextRecord
from chiplog.core.values import convert
from chiplog.core.values.convert import double
from chiplog.sinks.shared import record_file, saved_state
from chiplog.sinks.shared.clean_values import INT64, edges, plain, utf8, whole_step
from chiplog.sinks.shared.service_metrics import service_points, texts

OURS = "chiplog"  # the parameter that marks our runs
BINS = 512  # of a distribution, Aim's limit
MESSAGES = "__log_records"  # the series that Aim shows as the log of a run
LEVELS = {"info": logging.INFO, "error": logging.ERROR}
PATIENCE = 30.0  # s without progress, before a batch is retried over a new connection


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],
    *,
    repo: str | None = None,
    experiment: str | None = None,
    name: str | None = None,
) -> Aim:
    """`repo` is a path or `aim://host:port`; the default is Aim's own: `.aim` here or in a folder above."""
    where = located(repo or environ.get("AIM_REPO"), Path(identity.cwd).absolute())
    return Aim(identity, repo=where, experiment=experiment or identity.project, name=name or identity.name)


class Aim:
    """One run of an Aim repository, found again by its hash."""

    commits = True

    def __init__(self, identity: Identity, *, repo: str, experiment: str, name: str) -> None:
        self._identity = identity
        self._repo, self._experiment, self._name = repo, experiment, name
        self._hash = ""
        self._config: dict[str, Plain] = {}
        self.run: Run | None = None  # Aim's own, from the first batch on

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if not batch:
            return
        run = self.run = self.run or self._open()
        for record in batch:
            if isinstance(record, Event) and record.name == "config":
                self._config = {**self._config, **plain(convert.plain(record.data), _integer)}
                run["config"] = self._config
            else:
                self._track(run, record)
        _commit(run)

    def close(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            _commit(run)  # `close` would wait for it, without a limit
            run.close()

    def state(self) -> dict[str, Plain]:
        return {"hash": self._hash, "config": self._config}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self.close()
        hashed = saved_state.text(state, "hash")
        if not hashed.isalnum() and hashed:  # it becomes part of a path
            raise ValueError(f"{hashed!r} is not a hash of Aim")
        self._hash, self._config = hashed, saved_state.mapping(state, "config")

    def _track(self, run: Run, record: AnyRecord) -> None:
        """Like `run.track`, but with the time of the record."""
        at = record.time / 1e9
        try:
            if isinstance(record, Alert):  # by its time, so that none replaces another
                run._tracker._track(message(record), at, MESSAGES, record.time)
            elif isinstance(record, (TextRecord, HistogramRecord, File)):
                if (shown := medium(record, self._identity.dir)) is not None:
                    run._tracker._track(shown, at, utf8(record.name), whole_step(record.step))
            elif row := numbers(service_points(record)):
                step = whole_step(getattr(record, "step", None))
                run._tracker._track(row, at, step=step)
                for name, text in texts(record).items():
                    run._tracker._track(AimText(utf8(text)), at, utf8(name), step)
        except (TypeError, ValueError, SyntaxError) as error:  # a file that is not an image, a name of another kind
            raise Rejected(f"{type(error).__name__}: {error}") from error

    def _open(self) -> Run:
        # A new connection each time: Aim would return the one that has failed.
        repo = Repo(self._repo) if Repo.is_remote_path(self._repo) else get_repo(self._repo)
        chosen = self._hash or None
        if not repo.is_remote_repo:
            # Aim continues a run whose folder exists. So we choose the hash, and a relay that is killed before it has
            # saved the hash does not leave a second run behind.
            chosen = chosen or hash_of(self._identity)
            (Path(repo.path) / "meta" / "chunks" / chosen).mkdir(parents=True, exist_ok=True)
        # Ignore a lock that a killed relay has left: the lease of our cursor keeps two processes apart.
        run = Run(
            chosen,
            repo=repo,
            experiment=self._experiment,
            force_resume=chosen is not None,
            system_tracking_interval=None,
            capture_terminal_logs=False,
        )
        run[OURS] = {"id": self._identity.id, "project": self._identity.project}
        if self._name:
            run.name = self._name
        _commit(run)
        self._hash = run.hash
        return run


def located(repo: str | None, cwd: Path) -> str:
    """A repository relative to the folder of the training; the relay has another one."""
    if repo is None:
        return search_aim_repo(cwd)[0] or str(cwd)
    return repo if "://" in repo else str(cwd / Path(repo).expanduser())


def hash_of(identity: Identity) -> str:
    """The hash of one of our runs in a local repository."""
    return sha256(f"{identity.project}/{identity.id}".encode()).hexdigest()[:24]


def numbers(row: Mapping[str, Number | str]) -> dict[str, float]:
    """Numbers as Aim accepts them: floats, with names in UTF-8."""
    return {utf8(name): double(value) for name, value in row.items() if not isinstance(value, str)}


def medium(record: TextRecord | HistogramRecord | File, run: Path) -> AimText | Distribution | Image | None:
    """A text, histogram or image as Aim's object; None for another or a missing file."""
    if isinstance(record, TextRecord):
        return AimText(utf8(record.text))
    if isinstance(record, HistogramRecord):
        return distribution(record) if record.counts else None
    path = record_file.path_of(run, record) if record.media.startswith("image/") else None
    if path is None:
        return None
    try:
        return Image(str(path), caption=utf8(record.caption))
    except Exception as error:  # Pillow's, for a format that it does not know, such as SVG, or too many pixels
        raise Rejected(f"Aim cannot read the image {record.path}: {error}") from error


def distribution(record: HistogramRecord) -> Distribution:
    """Aim's bins have equal widths: counts of other bins are spread evenly over those that they overlap."""
    bounds = numpy.array(edges(record.edges))
    finite = bounds[numpy.isfinite(bounds)]
    bounds = numpy.nan_to_num(bounds, posinf=max(finite, default=0.0), neginf=min(finite, default=0.0))
    equal = numpy.linspace(bounds[0], bounds[-1], min(BINS, len(record.counts)) + 1)
    below = numpy.concatenate(([0.0], numpy.cumsum(record.counts)))
    return Distribution(hist=numpy.diff(numpy.interp(equal, bounds, below)), bin_range=(bounds[0], bounds[-1]))


def message(alert: Alert) -> LogRecord:
    words = ": ".join(utf8(one) for one in (alert.title, alert.text) if one)
    return LogRecord(words, LEVELS.get(alert.level, logging.WARNING), alert.time / 1e9, (OURS, 0))


def _integer(value: int) -> int | str:
    """Aim's integers have 64 bits; a longer one is stored as text."""
    return value if -INT64 <= value <= INT64 else str(value)


def _commit(run: Run) -> None:
    """Wait until the server has everything; a local repository has already written every value.

    Aim sends on a thread and waits for it without a limit, even if the server hangs or the thread has died of a
    response. What is left then is thrown away, so that Aim does not block on it at exit; the journal has it.
    """
    repo: Any = run.repo
    if not repo.is_remote_repo:
        return
    sending = repo._client.get_queue()._queue
    left, since = sending.unfinished_tasks, time.monotonic()
    while sending.unfinished_tasks:
        if sending.unfinished_tasks != left:
            left, since = sending.unfinished_tasks, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            with sending.all_tasks_done:
                sending.queue.clear()
                sending.unfinished_tasks = 0
                sending.all_tasks_done.notify_all()
            raise ConnectionError(f"the Aim server at {repo.root_path} has accepted nothing for {PATIENCE:.0f} s")
        time.sleep(0.005)
