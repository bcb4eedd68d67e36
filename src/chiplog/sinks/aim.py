"""Aim: a run in an Aim repository, local or behind an Aim server.

Aim keeps one value for a series and a step, so a batch that comes twice is there once, and of a step that was logged
again the newer value stays.
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
from chiplog.core.records import NONFINITE, Alert, AnyRecord, Event, File, Histogram, Number, Plain, Text
from chiplog.core.values import convert
from chiplog.core.values.convert import double
from chiplog.sinks.shared.service_metrics import outward, texts

OURS = "chiplog"  # the parameter that tells our runs
FURTHEST = (1 << 63) - 1
BINS = 512  # of a distribution, by Aim's own limit
MESSAGES = "__log_records"  # the series that Aim shows as the messages of a run
LEVELS = {"info": logging.INFO, "error": logging.ERROR}
PATIENCE = 30.0  # s in which a server takes nothing, before a batch is tried again over a new connection


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],
    *,
    repo: str | None = None,
    experiment: str | None = None,
    name: str | None = None,
) -> Aim:
    """`repo` is a path or `aim://host:port`; without it, what Aim itself takes: `.aim` here or further up."""
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
                self._config = {**self._config, **sayable(record.data)}
                run["config"] = self._config
            else:
                self._track(run, record)
        _commit(run)

    def close(self) -> None:
        run, self.run = self.run, None
        if run is not None:
            _commit(run)  # closing would wait for it, and for ever
            run.close()

    def state(self) -> dict[str, Plain]:
        return {"hash": self._hash, "config": self._config}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self.close()
        self._hash, self._config = state.get("hash", ""), dict(state.get("config", {}))

    def _track(self, run: Run, record: AnyRecord) -> None:
        """What `run.track` does, with the time of the record instead of now."""
        at = record.time / 1e9
        try:
            if isinstance(record, Alert):  # by its time, so that none takes the place of another
                run._tracker._track(message(record), at, MESSAGES, record.time)
            elif isinstance(record, (Text, Histogram, File)):
                if (shown := medium(record, self._identity.dir)) is not None:
                    run._tracker._track(shown, at, utf8(record.name), whole(record.step))
            elif row := numbers(outward(record)):
                step = whole(getattr(record, "step", None))
                run._tracker._track(row, at, step=step)
                for name, text in texts(record).items():
                    run._tracker._track(AimText(utf8(text)), at, utf8(name), step)
        except (TypeError, ValueError, SyntaxError) as error:  # a picture that is none, a name that was another kind
            raise Rejected(f"{type(error).__name__}: {error}") from error

    def _open(self) -> Run:
        # Each time another connection to a server: Aim would give back the one that has failed.
        repo = Repo(self._repo) if Repo.is_remote_path(self._repo) else get_repo(self._repo)
        known = self._hash or None
        if not repo.is_remote_repo:
            # Aim goes on with a run whose folder is there. So it is ours to choose the hash, and a relay that is killed
            # before the hash is noted leaves no second run behind.
            known = known or hash_of(self._identity)
            (Path(repo.path) / "meta" / "chunks" / known).mkdir(parents=True, exist_ok=True)
        # A lock that a killed relay left is not waited for: the lease of our cursor keeps two deliverers apart.
        run = Run(
            known,
            repo=repo,
            experiment=self._experiment,
            force_resume=known is not None,
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
    """A repository as seen from the training's folder: the relay is elsewhere."""
    if repo is None:
        return search_aim_repo(cwd)[0] or str(cwd)
    return repo if "://" in repo else str(cwd / Path(repo).expanduser())


def hash_of(identity: Identity) -> str:
    """The hash that a run of ours has in a local repository."""
    return sha256(f"{identity.project}/{identity.id}".encode()).hexdigest()[:24]


def numbers(row: Mapping[str, Number]) -> dict[str, float]:
    """Numbers as Aim takes them: floats, infinite where they are beyond; names in UTF-8."""
    return {utf8(name): _float(value) for name, value in row.items()}


def medium(record: Text | Histogram | File, run: Path) -> Any:
    """A text, histogram or picture as Aim's object; None for another file, and for one that has gone."""
    if isinstance(record, Text):
        return AimText(utf8(record.text))
    if isinstance(record, Histogram):
        return distribution(record) if record.counts else None
    path = run / record.path
    if not record.media.startswith("image/") or not path.is_file():
        return None
    try:
        return Image(str(path), caption=utf8(record.caption))
    except OSError as error:  # which Pillow says of a format that it does not know, such as SVG
        raise Rejected(f"Aim cannot read the picture {record.path}: {error}") from error


def distribution(record: Histogram) -> Distribution:
    """Aim's bins are all alike: the counts of others are spread evenly over those that they reach into."""
    edges = numpy.array([NONFINITE.get(edge, 0.0) if isinstance(edge, str) else edge for edge in record.edges])
    finite = edges[numpy.isfinite(edges)]
    edges = numpy.nan_to_num(edges, posinf=max(finite, default=0.0), neginf=min(finite, default=0.0))
    alike = numpy.linspace(edges[0], edges[-1], min(BINS, len(record.counts)) + 1)
    below = numpy.concatenate(([0.0], numpy.cumsum(record.counts)))
    return Distribution(hist=numpy.diff(numpy.interp(alike, edges, below)), bin_range=(edges[0], edges[-1]))


def message(alert: Alert) -> LogRecord:
    words = ": ".join(utf8(one) for one in (alert.title, alert.text) if one)
    return LogRecord(words, LEVELS.get(alert.level, logging.WARNING), alert.time / 1e9, (OURS, 0))


def utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def whole(step: int | float | None) -> int:
    """A step as Aim counts: whole, in 64 bits."""
    if step is None or step - step != 0:
        return 0
    return max(-FURTHEST, min(FURTHEST, int(step)))


def sayable(config: Mapping[str, Plain]) -> dict[str, Plain]:
    """A config as Aim can keep it: its integers have 64 bits, and its text is UTF-8."""
    said: dict[str, Plain] = _sayable(convert.plain(config))
    return said


def _sayable(value: Plain) -> Plain:
    if isinstance(value, dict):
        return {_sayable(name): _sayable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_sayable(one) for one in value]
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, int) and not -FURTHEST <= value <= FURTHEST:
        return str(value)
    return value


def _commit(run: Run) -> None:
    """Wait until the server has it; a local repository has handed every value to the system already.

    Aim sends on a thread, and waits for it without end: also when the server hangs, or when the thread has died of
    what the server said. What is left then is thrown away, lest Aim waits for it at the end of the process too; the
    journal has it.
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
            raise ConnectionError(f"the Aim server at {repo.root_path} has taken nothing for {PATIENCE:.0f} s")
        time.sleep(0.005)


def _float(value: Number) -> float:
    try:
        return double(value)
    except (TypeError, ValueError):
        return float("nan")
