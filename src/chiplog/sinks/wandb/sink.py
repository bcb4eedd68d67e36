"""Weights & Biases: every record that has something to show becomes one row of the run's history, in order.

W&B counts the rows of a run, and says how many it has when a run is begun again. So the number of rows is the key by
which nothing is sent twice, and a batch is W&B's when it has counted all of it (`wandb_proof.py`).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

import wandb

from chiplog.core import messages as notes
from chiplog.core.engine.attachments import make_dir
from chiplog.core.errors import Refused, Rejected, RestartDelivery, Unmet
from chiplog.core.identity import Identity
from chiplog.core.records import Alert, AnyRecord, Event, File, Finish, Plain, Table
from chiplog.sinks.shared import project_name
from chiplog.sinks.wandb import client
from chiplog.sinks.wandb.login import NO_KEY
from chiplog.sinks.wandb.rows import artifact, history, piece, row, sayable
from chiplog.sinks.wandb.server_rows import DELETED, Confirmation, RunQueries, next_id

INIT = 60.0  # s for W&B to know of the run
PATIENCE = 60.0  # s without anything new arriving, before a batch is tried again
FINISH = 30.0  # s for the end of a run; everything has arrived by then
LEVELS = {"info": "INFO", "warn": "WARN", "error": "ERROR"}
SENT_EVERY = 2.0  # s between two requests with rows
AGAIN = 5.0  # s: the longest pause of the SDK's own, before it tries a request again
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
    "x_graphql_retry_wait_max_seconds": AGAIN,
    "x_file_stream_retry_wait_max_seconds": AGAIN,
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
    resume: bool | str | None = None,
    history: bool = False,
    settings: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    current: bool = False,
) -> Wandb:
    """`id` is that of a run at W&B to go on with, which may have rows of others; with `resume` "must" it has to be
    there, with "never" it must not. With `history` the end of the run brings all of it as one table. `settings` are of
    W&B's own (`wandb.Settings`), and go over ours; `config` goes beside the run's. With `current` it is `wandb.run` in
    this process, unless another run of W&B is active."""
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
        adopted=id or environ.get("WANDB_RUN_ID") or None,
        resume=_resume(resume, environ),
        project=project,
        about={key: value for key, value in about.items() if value is not None},
        history=history,
        settings={**_ours(environ), **(settings or {})},
        config=config or {},
        current=current,
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
        resume: str = "allow",
        project: str | None,
        about: Mapping[str, Any],
        history: bool = False,
        settings: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        current: bool = False,
    ) -> None:
        self._config, self._current = dict(config or {}), current
        self._identity, self._environ = identity, environ
        self._mode, self._project, self._about, self._settings = mode, project, about, settings
        self._history = history
        self._where = environ.get("WANDB_BASE_URL", "") if mode == "online" else mode
        self.native: Any = None
        self.url: str | None = None  # of the run at W&B, or the directory of one that is offline
        self._proof: Confirmation | None = None
        self._tables: dict[str, Any] = {}
        self._first_id = self._id = adopted or identity.id
        self._adopted = adopted is not None
        self._entity = about.get("entity")
        self._resume = resume
        self._begun = False  # at W&B, by us
        self._found: dict[str, int] = {}  # rows that adopted runs had before, by id
        # Where the records that were accepted end, and how far the SDK has been given them: more, when a batch failed.
        self._records = self._rows = 0
        self._given_records = self._given_rows = self._began_rows = 0

    @property
    def where(self) -> str:
        """The line about the place of the run; empty where W&B is to be silent."""
        if not self.url or self._environ.get("WANDB_SILENT", "").lower() not in ("", "0", "false", "no"):
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
                self._take(record)
            self._settle()
        except BaseException as error:
            self._records, self._rows = before
            if not isinstance(error, Rejected):
                self._drop()  # whatever it was, the next client begins with what W&B has
            raise

    def close(self) -> None:
        """End the run at W&B; one whose training has not said how it ended was killed."""
        self._finish(1)

    def state(self) -> dict[str, Plain]:
        own = {"where": self._where, "id": self._id, "rows": self._rows, "records": self._records}
        more = {"begun": self._begun or None, "adopted": self._adopted or None, "foreign": self._found.get(self._id)}
        return {**own, **{key: value for key, value in more.items() if value is not None}}

    def restore(self, state: Mapping[str, Plain]) -> None:
        """What was for a file, or for another server, has not been sent to this one."""
        if state.get("where", self._where) != self._where:
            raise RestartDelivery(f"the run was sent to {state['where'] or 'W&B'} so far")
        self._id = state.get("id", self._first_id)
        self._rows, self._records = state.get("rows", 0), state.get("records", 0)
        if state.get("begun") or self._rows:
            self._begun, self._resume = True, "allow"  # it was there, or was made
        self._adopted = self._adopted or bool(state.get("adopted"))
        if "foreign" in state:
            self._found[self._id] = state["foreign"]

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
        try:
            return self._opened()
        except BaseException:
            client.discard()  # it would not begin a run of this id again
            raise

    def _opened(self) -> Any:
        known = client.start()
        if self._mode == "online" and not self._settings.get("api_key"):
            try:
                has_key = wandb.login(prompt=False, verify=False)
            except wandb.errors.AuthenticationError as error:
                raise Refused(f"W&B cannot log in: {error}") from error
            if not has_key:
                raise Refused(NO_KEY)
        chosen = wandb.Settings(**self._settings, x_skip_transaction_log=self._mode == "online")
        desk = None
        if self._mode == "online":
            asked = known.model_copy()
            asked.update_from_settings(chosen)
            desk = RunQueries(asked)
        make_dir(self._identity.files)
        project = self._project or project_name.project(self._identity, self._environ)
        while True:
            found = desk.find(self._id, project, self._entity or known.entity) if desk is not None else None
            if desk is not None:
                self._check_terms(found is not None)
            before = found or 0
            if not before and self._is_gone(desk, project, self._entity or known.entity):
                self._go_on_elsewhere()
                continue
            try:
                run = wandb.init(
                    project=project,
                    id=self._id,
                    resume=self._resume,
                    mode=self._mode,
                    dir=self._environ.get("WANDB_DIR") or str(self._identity.files),
                    reinit="return_previous" if self._current and client.is_free() else "create_new",
                    settings=chosen,
                    **self._about,
                )
                break
            except wandb.errors.UsageError as error:  # a name or an id that W&B does not take, now or later
                raise Refused(f"W&B does not begin the run: {error}") from error
            except wandb.Error as error:
                if DELETED not in str(error):
                    raise
                self._go_on_elsewhere()
        self._begun, self._resume = True, "allow"  # from now on it is there
        if self._config:
            run.config.update(sayable(self._config), allow_val_change=True)
        run.define_metric("step", hidden=True)
        run.define_metric("*", step_metric="step")
        self._tables.clear()
        self._entity = run.entity
        self.url = str(run.settings.sync_dir) if run.offline else run.url
        there = self._there(run, desk, before)
        self._proof = Confirmation(run, desk, there)
        if self._adopted and not self._rows:
            self._found.setdefault(self._id, there)
        if self._foreign > there:
            self._found[self._id] = there
        there -= self._foreign
        if there < self._rows:  # a new file, or a run that was deleted: it has none of those before
            self._rows = there
        self._given_rows = self._began_rows = there
        self._given_records = self._records
        return run

    def _check_terms(self, there: bool) -> None:
        """Raises where a run has to be there and is not, or the other way round."""
        if self._resume == "must" and not there:
            raise Unmet(
                f"W&B has no run {self._id}, and resume='must' asks for one; check the id, or use resume='allow'"
            )
        if self._resume == "never" and there:
            raise Unmet(
                f"W&B has a run {self._id} already, and resume='never' asks for a new one; choose another id, or use "
                "resume='allow'"
            )

    def _is_gone(self, desk: RunQueries | None, project: str, entity: str | None) -> bool:
        """Whether a run that should be there was deleted."""
        expected = self._resume == "allow" and (self._adopted or self._rows > 0)
        return expected and desk is not None and desk.is_deleted(self._id, project, entity)

    def _go_on_elsewhere(self) -> None:
        self._id = next_id(self._id, self._first_id)
        notes.say(f"W&B has deleted run {self._first_id}; it goes on there as {self._id}")

    @property
    def _foreign(self) -> int:
        return self._found.get(self._id, 0)

    def _there(self, run: Any, desk: RunQueries | None, before: int) -> int:
        """The rows behind which the SDK goes on: those that were there when it began, and it does not say how many."""
        if desk is None or not run.resumed:
            return 0
        after = desk.rows(self._id, run.project, run.entity)
        if after not in (before, run.starting_step):
            raise ConnectionError(f"W&B has just got rows of run {self._id} from another process")
        return after

    def _settle(self, ending: bool = False) -> None:
        """Return when W&B has everything it was given; at the end, but for what the end itself sends at once."""
        if self.native is None or self._proof is None:
            return
        seen, since, pause = "", time.monotonic(), 0.05
        while (missing := self._proof.missing(self._foreign + self._given_rows, ending)) is not None:
            if missing != seen:
                seen, since = missing, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                raise ConnectionError(f"W&B does not confirm what it was sent ({missing})")
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)

    def _finish(self, code: int) -> None:
        if self.native is not None:
            self._settle(ending=True)
            run, self.native = self.native, None
            try:
                run.finish(exit_code=code)
            except BaseException:
                client.discard(run)
                raise

    def _count_others(self, run: Any) -> None:
        """Take note of the rows that the script has logged itself, so that none of ours is taken for sent."""
        ours = self._given_rows - self._began_rows
        if (others := run.step - run.starting_step - ours) > 0:
            self._found[self._id] = self._foreign + others

    def _drop(self) -> None:
        """Let a run go that gets nowhere; what it has not sent is sent by the next one."""
        run, self.native = self.native, None
        if run is not None and self._current:
            self._count_others(run)
        if run is None or client.discard(run):
            return
        try:
            run.finish(exit_code=1)
        except Exception as error:  # it could not be reached before either
            notes.once(f"wandb drop {id(self)}", f"wandb: {error}")


def _ours(environ: Mapping[str, str]) -> dict[str, Any]:
    """Our settings, but for those that a variable says."""
    said = {f"WANDB_{key[1:] if key.startswith('x_') else key}".upper(): key for key in SETTINGS}
    return {key: SETTINGS[key] for variable, key in said.items() if not environ.get(variable)}


def _resume(given: bool | str | None, environ: Mapping[str, str]) -> str:
    """must, never, or allow for everything else."""
    chosen = given if given is not None else environ.get("WANDB_RESUME")
    return str(chosen) if chosen in ("must", "never") else "allow"


def _mode(given: str | None, environ: Mapping[str, str]) -> str:
    """online, offline or disabled."""
    if environ.get("WANDB_DISABLED", "").lower() not in ("", "0", "false", "no"):
        return "disabled"
    chosen = given or environ.get("WANDB_MODE") or "online"
    return {"dryrun": "offline", "run": "online"}.get(chosen, chosen)
