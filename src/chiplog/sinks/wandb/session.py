"""The run at W&B, through its SDK: started or resumed, confirmed, finished, or dropped if it makes no progress."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import wandb

from chiplog.core import messages
from chiplog.core.errors import NeedsRelay, Refused, Unmet
from chiplog.core.identity import Identity
from chiplog.core.paths import access_of, make_dir
from chiplog.core.records import Plain
from chiplog.core.values.text import reason
from chiplog.sinks.shared import clean_values, project_name, saved_state
from chiplog.sinks.wandb import client
from chiplog.sinks.wandb.confirmation import DELETED, Confirmation, RunQueries, next_id
from chiplog.sinks.wandb.login import NO_KEY
from chiplog.sinks.wandb.options import RunOptions

PATIENCE = 60.0  # s without anything new arriving, before a batch is retried


class Session:
    """One run at W&B; `native` is the SDK's own object while it is open."""

    def __init__(self, identity: Identity, environ: Mapping[str, str], options: RunOptions) -> None:
        self.native: Any = None
        self.url: str | None = None  # of the run at W&B, or the directory of an offline run
        self.id = self._first_id = options.adopted or identity.id
        self._identity, self._environ, self._options = identity, environ, options
        self._adopted = options.adopted is not None
        self._resume = options.resume
        self._entity = options.about.get("entity")
        self._started = False  # at W&B, by us
        self._foreign: dict[str, int] = {}  # rows from elsewhere in adopted runs, by id
        self._confirmation: Confirmation | None = None

    def state(self) -> dict[str, Plain]:
        state = {
            "id": self.id,
            "begun": self._started or None,
            "adopted": self._adopted or None,
            "foreign": self._foreign.get(self.id),
        }
        return {key: value for key, value in state.items() if value is not None}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self.id = saved_state.text(state, "id", self._first_id)
        if state.get("begun") or state.get("rows"):
            self._started, self._resume = True, "allow"  # it existed, or was created
        self._adopted = self._adopted or bool(state.get("adopted"))
        if "foreign" in state:
            self._foreign[self.id] = saved_state.count(state, "foreign")

    def open(self, sent: int) -> int:
        """Start or resume the run; how many of our rows it has, which may be fewer than those `sent`."""
        try:
            return self._open(sent)
        except BaseException:
            client.discard()  # it would not start a run with this id again
            raise

    def settle(self, rows: int, ending: bool = False) -> None:
        """Return when W&B has so many of our rows and all files; at the end, except what the end itself sends."""
        if self.native is None or self._confirmation is None:
            return
        last, since, pause = "", time.monotonic(), 0.05
        while (missing := self._confirmation.missing(self._others + rows, ending)) is not None:
            if missing != last:
                last, since = missing, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                raise ConnectionError(f"W&B does not confirm what it was sent ({missing})")
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)

    def finish(self, rows: int, code: int) -> None:
        if self.native is not None:
            self.settle(rows, ending=True)
            run, self.native = self.native, None
            try:
                run.finish(exit_code=code)
            except BaseException:
                client.discard(run)
                raise

    def drop(self, rows: int) -> None:
        """Give up a run that makes no progress, to which we have logged so many rows; the next one sends the rest."""
        run, self.native = self.native, None
        if run is not None and self._options.current:
            # Count rows that the script has logged itself, so that none of ours is taken for sent.
            others = max(0, run.step - run.starting_step - rows)
            self._foreign.update({self.id: self._others + others} if others else {})
        if run is not None:
            self._abandon(run)

    @property
    def _others(self) -> int:
        return self._foreign.get(self.id, 0)

    def _open(self, sent: int) -> int:
        defaults = client.start()
        online = self._options.mode == "online"
        if online:
            self._log_in()
        settings = wandb.Settings(**self._options.settings, x_skip_transaction_log=online)
        queries = None
        if online:
            server = defaults.model_copy()
            server.update_from_settings(settings)
            queries = RunQueries(server)
        if self._options.dir is None:
            make_dir(self._identity.files, access_of(self._identity.dir))
        run, before = self._init(settings, queries, self._entity or defaults.entity, sent)
        self._started, self._resume = True, "allow"  # from now on it exists
        try:
            rows = self._prepare(run, queries, before)
        except BaseException:
            self._abandon(run)
            raise
        if self._adopted and not sent:
            self._foreign.setdefault(self.id, rows)
        if self._others > rows:
            self._foreign[self.id] = rows
        self.native = run
        return rows - self._others

    def _prepare(self, run: Any, queries: RunQueries | None, before: int) -> int:
        """Give a run that has started its config; how many rows it has."""
        if self._options.config:
            run.config.update(clean_values.plain(dict(self._options.config)), allow_val_change=True)
        if not self._options.by_step:
            run.define_metric("step", hidden=True)
            run.define_metric("*", step_metric="step")
        self._entity = run.entity
        self.url = str(run.settings.sync_dir) if run.offline else run.url
        rows = self._rows(run, queries, before)
        self._confirmation = Confirmation(run, queries, rows)
        return rows

    def _abandon(self, run: Any) -> None:
        """End a run of the SDK without waiting for what it has not sent, if that is possible."""
        if client.discard(run):
            return
        try:
            run.finish(exit_code=1)
        except Exception as error:  # it could not be reached before either
            messages.once(f"wandb drop {id(self)}", f"wandb: {error}")

    def _log_in(self) -> None:
        if self._options.settings.get("api_key"):
            return
        try:
            has_key = client.has_key()
        except wandb.errors.AuthenticationError as error:
            raise Refused(f"W&B cannot log in: {error}") from error
        if not has_key:
            raise Refused(NO_KEY)

    def _init(
        self, settings: wandb.Settings, queries: RunQueries | None, entity: str | None, sent: int
    ) -> tuple[Any, int]:
        """The SDK's run, and the rows that W&B had before; a run that was deleted continues under another id."""
        project = self._options.project or project_name.project(self._identity, self._environ)
        while True:
            before = 0
            if queries is not None:
                rows = queries.find(self.id, project, entity)
                self._check_terms(exists=rows is not None)
                before = rows or 0
                expected = self._resume == "allow" and (self._adopted or sent > 0)
                if not before and expected and queries.is_deleted(self.id, project, entity):
                    self._change_id()
                    continue
            try:
                run = wandb.init(
                    project=project,
                    id=self.id,
                    resume=self._resume,
                    mode=self._options.mode,
                    dir=self._options.dir or str(self._identity.files),
                    reinit="return_previous" if self._options.current and client.is_free() else "create_new",
                    settings=settings,
                    **self._options.about,
                )
            except wandb.errors.UsageError as error:  # a name or an id that W&B will never accept
                raise Refused(f"W&B does not start the run: {error}") from error
            except Exception as error:
                if DELETED in str(error):
                    self._change_id()
                elif client.discard():
                    raise
                else:  # the client refuses this id from now on
                    raise NeedsRelay(
                        f"{reason(error)}; W&B's client here also serves another run, so the relay process takes over"
                    ) from error
            else:
                return run, before

    def _check_terms(self, *, exists: bool) -> None:
        """Raise if a run must exist and does not, or the other way round."""
        if self._resume == "must" and not exists:
            raise Unmet(
                f"W&B has no run {self.id}, and resume='must' asks for one; check the id, or use resume='allow'"
            )
        if self._resume == "never" and exists:
            raise Unmet(
                f"W&B has a run {self.id} already, and resume='never' asks for a new one; choose another id, or use "
                "resume='allow'"
            )

    def _change_id(self) -> None:
        self.id = next_id(self.id, self._first_id)
        messages.say(f"run {self._first_id} was deleted at W&B; it continues there as {self.id}")

    def _rows(self, run: Any, queries: RunQueries | None, before: int) -> int:
        """The rows after which the SDK continues: those at the server when it started, which it does not report."""
        if queries is None or not run.resumed:
            return 0
        after = queries.rows(self.id, run.project, run.entity)
        if after not in (before, run.starting_step):
            raise ConnectionError(f"W&B has just received rows of run {self.id} from another process")
        return after
