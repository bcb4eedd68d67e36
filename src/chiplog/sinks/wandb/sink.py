"""Weights & Biases: every record that has something to show becomes one row of the run's history, in order.

W&B counts the rows of a run, and reports how many it has when a run is resumed. So the number of rows is the key by
which nothing is sent twice, and a batch is delivered once W&B has counted all of it (`confirmation.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Any

import wandb

from chiplog.core.errors import Rejected, RestartDelivery
from chiplog.core.identity import Identity
from chiplog.core.records import Alert, AnyRecord, Event, File, Finish, Plain, Table
from chiplog.sinks.shared import clean_values, saved_state
from chiplog.sinks.wandb.login import is_on
from chiplog.sinks.wandb.options import RunOptions, default_settings, resume_policy, run_mode
from chiplog.sinks.wandb.rows import artifact, history_table, row, table_rows
from chiplog.sinks.wandb.session import Session

LEVELS = {"info": "INFO", "warn": "WARN", "error": "ERROR"}
HISTORY = "training_history"  # the table of everything, as ezpz calls it


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],
    *,
    id: str | None = None,
    project: str | None = None,
    entity: str | None = None,
    group: str | None = None,
    job_type: str | None = None,
    name: str | None = None,
    notes: str | None = None,
    tags: Sequence[str] | None = None,
    mode: str | None = None,
    resume: bool | str | None = None,
    history: bool = False,
    settings: Mapping[str, Plain] | None = None,
    config: Mapping[str, Plain] | None = None,
    current: bool = False,
    by_step: bool = False,
    dir: str | None = None,
) -> Wandb:
    """`id` names a run at W&B to continue, which may have other rows; with `resume` "must" it has to exist, with
    "never" it must not. With `history`, the end of the run adds all of it as one table. `settings` are W&B's own
    (`wandb.Settings`) and override ours; `config` is added to that of the run. With `current` it becomes `wandb.run` in
    this process, unless another run of W&B is active. With `by_step`, rows are at their training step, as those of
    W&B's own client, and steps that W&B has already are not sent. `dir` is where W&B keeps its own files, in a folder
    `wandb`; the default is `WANDB_DIR`, or the run."""
    about = {
        "entity": entity,
        "group": group,
        "job_type": job_type,
        "name": name or (identity.name if identity.name != identity.id else None),
        "notes": notes,
        "tags": list(tags if tags is not None else identity.tags) or None,
    }
    options = RunOptions(
        mode=run_mode(mode, environ),
        adopted=id or environ.get("WANDB_RUN_ID") or None,
        resume=resume_policy(resume, environ),
        project=project,
        about={key: value for key, value in about.items() if value is not None},
        settings={**default_settings(environ), **(settings or {})},
        config=config or {},
        current=current,
        by_step=by_step,
        dir=str(Path(identity.cwd, dir)) if dir else environ.get("WANDB_DIR") or None,
    )
    return Wandb(identity, environ, options, history=history)


class Wandb:
    """One run of W&B, started with the first record that has something for it."""

    commits = True

    def __init__(
        self, identity: Identity, environ: Mapping[str, str], options: RunOptions, *, history: bool = False
    ) -> None:
        self._identity, self._environ, self._mode, self._history = identity, environ, options.mode, history
        self._place = environ.get("WANDB_BASE_URL", "") if options.mode == "online" else options.mode
        self._session = Session(identity, environ, options)
        self._tables: dict[str, wandb.Table] = {}
        # Where the accepted records end, and how far the SDK has been given them: further, if a batch has failed.
        self._records = self._rows = 0
        self._given_records = self._given_rows = 0
        self._first_row = 0  # of those given to the SDK's current run
        self._by_step = options.by_step
        self._step = 0  # the newest of the records, if rows are at their steps
        self._open_step: int | None = None  # whose row the SDK sends with the next one, or at the end

    @property
    def native(self) -> Any:
        """The SDK's own run; None while there is none."""
        return self._session.native

    @property
    def url(self) -> str | None:
        """The address of the run at W&B, or the directory of an offline run."""
        return self._session.url

    @property
    def where(self) -> str:
        """The line about the address of the run; empty if W&B should be silent."""
        if not self.url or is_on(self._environ.get("WANDB_SILENT", "")):
            return ""
        if self._mode == "online":
            return f"W&B run: {self.url}"
        return f"W&B is offline: {self.url}; upload it with: wandb sync {shlex.quote(self.url)}"

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if self._mode == "disabled" or not batch:
            return
        before = self._records, self._rows
        try:
            for record in batch:
                self._give(record)
            self._session.settle(self._sent_rows)
        except BaseException as error:
            self._records, self._rows = before
            if not isinstance(error, Rejected):  # the next session starts with what W&B has
                self._session.drop(self._given_rows - self._first_row)
            raise

    def close(self) -> None:
        """End the run at W&B; if the training process has not recorded its end, it was killed."""
        self._session.finish(self._sent_rows, 1)

    def state(self) -> dict[str, Plain]:
        state = {"where": self._place, "rows": self._rows, "records": self._records, **self._session.state()}
        return {**state, "step": self._step} if self._by_step else state

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Start over if the run was written to a file, or sent to another server, so far."""
        if state.get("where", self._place) != self._place:
            raise RestartDelivery(f"the run was sent to {state['where'] or 'W&B'} so far")
        self._rows, self._records = saved_state.count(state, "rows"), saved_state.count(state, "records")
        self._step = saved_state.whole(state, "step")
        self._session.restore(state)

    def _open(self) -> Any:
        """The SDK's run, started if there is none."""
        if self._session.native is None:
            rows = self._session.open(self._rows)
            self._rows = min(self._rows, rows)  # a new file, or a run that was deleted, has none of those before
            self._given_rows = self._first_row = rows
            self._given_records = self._records
            self._open_step = None
            self._tables.clear()
        return self._session.native

    def _give(self, record: AnyRecord) -> None:
        """Give a record to the SDK, unless it or W&B already has it."""
        if isinstance(record, Finish):
            if self._history:
                self._give_row(record)
            self._session.finish(self._sent_rows, 0 if record.state == "finished" else 1)
        else:
            self._give_fact(record)
            self._give_row(record)
        self._records += 1
        self._given_records = max(self._given_records, self._records)

    def _give_fact(self, record: AnyRecord) -> None:
        """What is not a row: config, summary, alerts and artifacts."""
        if self.native is not None and self._records < self._given_records:
            return  # in a batch that failed later
        if isinstance(record, Event) and record.name in ("config", "environment"):
            config = record.data if record.name == "config" else {"environment": record.data}
            self._open().config.update(clean_values.plain(config), allow_val_change=True)
        elif isinstance(record, Event) and record.name == "summary":
            self._open().summary.update(clean_values.plain(record.data))
        elif isinstance(record, Event) and record.name == "tags":
            self._open().tags = tuple(clean_values.utf8(str(tag)) for tag in record.data.get("tags", ()))
        elif isinstance(record, Event) and record.name == "name":
            self._open().name = clean_values.utf8(str(record.data.get("name", "")))
        elif isinstance(record, Alert):
            title, text = clean_values.utf8(record.title), clean_values.utf8(record.text)
            self._open().alert(title[:63] or "alert", text, level=LEVELS.get(record.level, "WARN"))
        elif isinstance(record, File) and (file := artifact(record, self._identity)) is not None:
            self._open().log_artifact(file)

    @property
    def _sent_rows(self) -> int:
        """The rows that the SDK sends without waiting for another."""
        return self._given_rows - (self._open_step is not None)

    def _give_at_step(self, run: Any, values: dict[str, Plain]) -> None:
        """Log a row at its training step, which joins what the step has; W&B accepts none before its newest.

        W&B's steps are whole: a row between two of them joins the one before, as does a row without a step.
        """
        if "step" in values:
            self._step = floor(values["step"])
            if self._step == values["step"]:
                del values["step"]
        if self._step >= max(run.step, run.starting_step):
            run.log(values, step=self._step)
            self._given_rows += self._step != self._open_step
            self._rows, self._open_step = self._given_rows, self._step

    def _give_row(self, record: AnyRecord) -> None:
        try:
            values = self._row(record)
            if values is None:
                return
            run = self._open()
            if self._by_step:
                self._give_at_step(run, values)
                return
            if self._rows >= self._given_rows:
                run.log(values)
                self._given_rows += 1
            self._rows += 1
        except (TypeError, ValueError, AssertionError, OverflowError) as error:
            raise Rejected(f"{type(error).__name__}: {error}") from error

    def _row(self, record: AnyRecord) -> dict[str, Plain] | None:
        if isinstance(record, Table):
            return self._append(record)
        if isinstance(record, Finish):
            table = history_table(self._identity.dir)
            return None if table is None else {HISTORY: table, "_timestamp": record.time / 1e9}
        return row(record, self._identity.dir)

    def _append(self, record: Table) -> dict[str, Plain] | None:
        """Rows for a growing table of W&B; other columns start another one."""
        self._open()  # which tells how many rows it has
        columns, rows = table_rows(record)
        table = self._tables.get(record.name)
        if table is None or table.columns != columns:
            table = wandb.Table(columns=columns, log_mode="INCREMENTAL", allow_mixed_types=True)
            self._tables[record.name] = table
        if self._rows >= self._given_rows:
            for one in rows:
                table.add_data(*one)
        return row(record, self._identity.dir, table)
