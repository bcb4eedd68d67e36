"""Weights & Biases: every record that has something to show becomes one row of the run's history, in order.

W&B counts the rows of a run, and says how many it has when a run is begun again. So the number of rows is the key by
which nothing is sent twice, and a batch is W&B's when it has counted all of it (`wandb_proof.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import wandb

from chiplog.core import notes
from chiplog.core.errors import Anew, ChiplogError, Rejected
from chiplog.core.files import make_dir
from chiplog.core.identity import Identity
from chiplog.core.records import Alert, AnyRecord, Event, File, Finish, Plain, Table
from chiplog.sinks import script
from chiplog.sinks.wandb_proof import Proof
from chiplog.sinks.wandb_rows import artifact, history, piece, row, sayable

INIT = 60.0  # s for W&B to know of the run
PATIENCE = 60.0  # s without anything new arriving, before a batch is tried again
FINISH = 30.0  # s for the end of a run; everything has arrived by then
LEVELS = {"info": "INFO", "warn": "WARN", "error": "ERROR"}
SENT_EVERY = 2.0  # s between two requests with rows
HISTORY = "training_history"  # the table of everything, as ezpz calls it

# The relay is not the training: its console, its machine load, its git and its code say nothing about the run.
SETTINGS: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "disable_code": True,
    "save_code": False,
    "disable_git": True,
    "disable_job_creation": True,
    "label_disable": True,
    "symlink": False,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "x_file_stream_transmit_interval": SENT_EVERY,
    "x_transaction_log_flush_interval": 0.2,
    "init_timeout": INIT,
    "finish_timeout": FINISH,
    "finish_timeout_raises": True,
}


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
    history: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Wandb:
    """`id` is that of a run at W&B to go on with, which may have rows of others. With `history` the end of the run
    brings all of it as one table. `settings` are of W&B's own (`wandb.Settings`), and go over ours."""
    about = {
        "entity": entity,
        "group": group,
        "job_type": job_type,
        "name": name or (identity.name if identity.name != identity.id else None),
        "notes": notes,
        "tags": list(tags if tags is not None else identity.tags) or None,
    }
    return Wandb(
        identity,
        environ,
        mode=_mode(mode, environ),
        adopted=id,
        project=project,
        about={key: value for key, value in about.items() if value is not None},
        history=history,
        settings={**SETTINGS, **(settings or {})},
    )


class Wandb:
    """One run of W&B. Begun with the first record that has something for it; `native` is the SDK's own object."""

    commits = True

    def __init__(
        self,
        identity: Identity,
        environ: Mapping[str, str],
        *,
        mode: str,
        adopted: str | None = None,
        project: str | None,
        about: Mapping[str, Any],
        history: bool = False,
        settings: Mapping[str, Any],
    ) -> None:
        self._identity, self._environ = identity, environ
        self._mode, self._project, self._about, self._settings = mode, project, about, settings
        self._history = history
        self._where = environ.get("WANDB_BASE_URL", "") if mode == "online" else mode
        self.native: Any = None
        self._proof: Proof | None = None
        self._tables: dict[str, Any] = {}
        self._first_id = self._id = adopted or identity.id
        self._adopted = adopted is not None
        self._foreign = 0  # rows that an adopted run had before
        # Where the records that were accepted end, and how far the SDK has been given them: more, when a batch failed.
        self._records = self._rows = 0
        self._given_records = self._given_rows = 0

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if self._mode == "disabled" or not batch:
            return
        before = self._records, self._rows
        try:
            for record in batch:
                self._take(record)
            self._settle()
        except BaseException:
            self._records, self._rows = before
            raise

    def close(self) -> None:
        """End the run at W&B; one whose training has not said how it ended was killed."""
        self._finish(1)

    def state(self) -> dict[str, Plain]:
        own = {"where": self._where, "id": self._id, "rows": self._rows, "records": self._records}
        return {**own, "foreign": self._foreign} if self._foreign else own

    def restore(self, state: Mapping[str, Plain]) -> None:
        """What was for a file, or for another server, has not been sent to this one."""
        if state.get("where", self._where) != self._where:
            raise Anew(f"the run was sent to {state['where'] or 'W&B'} so far")
        self._id = state.get("id", self._first_id)
        self._rows, self._records = state.get("rows", 0), state.get("records", 0)
        self._foreign = state.get("foreign", 0)

    # -- giving ----------------------------------------------------------------------------------------------------

    def _take(self, record: AnyRecord) -> None:
        """Give a record to the SDK, unless it or W&B has it already."""
        if isinstance(record, Finish):
            if self._history:
                self._give_row(record)
            self._finish(0 if record.state == "finished" else 1)
        else:
            self._give_fact(record)
            self._give_row(record)
        self._records += 1
        self._given_records = max(self._given_records, self._records)

    def _give_fact(self, record: AnyRecord) -> None:
        """What is no row: config, summary, alerts and artifacts."""
        if self.native is not None and self._records < self._given_records:
            return  # in a batch that failed later
        if isinstance(record, Event) and record.name in ("config", "environment"):
            config = record.data if record.name == "config" else {"environment": record.data}
            self._run().config.update(sayable(config), allow_val_change=True)
        elif isinstance(record, Event) and record.name == "summary":
            self._run().summary.update(sayable(record.data))
        elif isinstance(record, Alert):
            title, text = sayable(record.title), sayable(record.text)
            self._run().alert(title[:63] or "alert", text, level=LEVELS.get(record.level, "WARN"))
        elif isinstance(record, File) and (kept := artifact(record, self._identity)) is not None:
            self._run().log_artifact(kept)

    def _give_row(self, record: AnyRecord) -> None:
        try:
            made = self._made(record)
            if made is None:
                return
            run = self._run()
            if self._rows >= self._given_rows:
                run.log(made)
                self._given_rows += 1
            self._rows += 1
        except (TypeError, ValueError, AssertionError, OverflowError) as error:
            raise Rejected(f"{type(error).__name__}: {error}") from error

    def _made(self, record: AnyRecord) -> dict[str, Any] | None:
        if isinstance(record, Table):
            return self._append(record)
        if isinstance(record, Finish):
            table = history(self._identity.dir)
            return None if table is None else {HISTORY: table, "_timestamp": record.time / 1e9}
        return row(record, self._identity.dir)

    def _append(self, record: Table) -> dict[str, Any] | None:
        """Rows for a table of W&B that grows; other columns begin another one."""
        self._run()  # which says how many rows it has
        columns, rows = piece(record)
        table = self._tables.get(record.name)
        if table is None or table.columns != columns:
            table = wandb.Table(columns=columns, log_mode="INCREMENTAL", allow_mixed_types=True)
            self._tables[record.name] = table
        if self._rows >= self._given_rows:
            for one in rows:
                table.add_data(*one)
        return row(record, self._identity.dir, table)

    # -- the run at W&B --------------------------------------------------------------------------------------------

    def _run(self) -> Any:
        if self.native is None:
            self.native = self._begin()
        return self.native

    def _begin(self) -> Any:
        wandb.setup(wandb.Settings(silent=True))
        if self._mode == "online" and not wandb.login(prompt=False, verify=False):
            raise ChiplogError(
                "W&B has no key to log in with; set WANDB_API_KEY, or WANDB_MODE=offline to keep the run in files"
            )
        make_dir(self._identity.files)
        project = self._project or script.project(self._identity, self._environ)
        while True:
            try:
                run = wandb.init(
                    project=project,
                    id=self._id,
                    resume="allow",
                    mode=self._mode,
                    dir=str(self._identity.files),
                    reinit="create_new",
                    settings=wandb.Settings(**self._settings, x_skip_transaction_log=self._mode == "online"),
                    **self._about,
                )
                break
            except wandb.Error as error:
                if "previously created and deleted" not in str(error):
                    raise
                self._id, self._foreign = _next(self._id, self._first_id), 0
                notes.say(f"W&B has deleted run {self._first_id}; it goes on there as {self._id}")
        run.define_metric("step", hidden=True)
        run.define_metric("*", step_metric="step")
        self._tables.clear()
        self._proof = Proof(run)
        if self._adopted and not self._rows:
            self._foreign = run.starting_step
        there = run.starting_step - self._foreign
        if there < self._rows:  # a new file, or a run that was deleted: it has none of those before
            self._rows = there
        self._given_rows, self._given_records = there, self._records
        return run

    def _settle(self, ending: bool = False) -> None:
        """Return when W&B has everything it was given; at the end, but for what the end itself sends at once."""
        if self.native is None or self._proof is None:
            return
        seen, since, pause = "", time.monotonic(), 0.05
        while (missing := self._proof.missing(self._foreign + self._given_rows, ending)) is not None:
            if missing != seen:
                seen, since = missing, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                self._drop()
                raise ConnectionError(f"W&B does not confirm what it was sent ({missing})")
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)

    def _finish(self, code: int) -> None:
        if self.native is not None:
            self._settle(ending=True)
            run, self.native = self.native, None
            run.finish(exit_code=code)

    def _drop(self) -> None:
        """Let a run go that gets nowhere; what it has not sent is sent by the next one."""
        run, self.native = self.native, None
        try:
            run.finish(exit_code=1)
        except Exception as error:  # it could not be reached before either
            notes.once(f"wandb drop {id(self)}", f"wandb: {error}")


def _mode(given: str | None, environ: Mapping[str, str]) -> str:
    """online, offline or disabled."""
    if environ.get("WANDB_DISABLED", "").lower() not in ("", "0", "false", "no"):
        return "disabled"
    chosen = given or environ.get("WANDB_MODE") or "online"
    return {"dryrun": "offline", "run": "online"}.get(chosen, chosen)


def _next(id: str, first: str) -> str:
    """`run`, `run-2`, `run-3`, …"""
    number = id.removeprefix(first).lstrip("-")
    return f"{first}-{int(number) + 1 if number.isdigit() else 2}"
