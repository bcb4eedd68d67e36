"""Weights & Biases and TensorBoard: one run, started with the first row, delivers to both."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from chiplog import Run, assembly
from chiplog.assembly.run_sinks import sink_state
from chiplog.core import messages
from chiplog.core.values.text import reason, words
from chiplog.frontends.kempnerforge import wandb_client
from chiplog.frontends.kempnerforge.config import MetricsConfig
from chiplog.frontends.kempnerforge.logger import get_logger
from chiplog.frontends.kempnerforge.wandb_client import Client
from chiplog.sinks import registry
from chiplog.sinks.delivery import destinations
from chiplog.store import layout

POLL, FAILED, DONE = 0.5, 5.0, 3600.0  # s between checks of W&B: until its first rows, after a failure, afterwards
PATIENCE, HOPELESS = 30.0, 5.0  # s that the end waits for W&B, and for one that has failed so far
WATCH = 0.2  # s between checks of W&B while the run ends
MOST_BEHIND = 5  # warnings about rows before W&B's newest

_logger = get_logger("metrics.tracker")


class LazyRun:
    """A run that starts with the first row, when everything is set up and a checkpoint has been loaded.

    `run` is None before that, and False if it could not start; then rows are dropped, and training continues.
    """

    def __init__(self, config: Any, *, wandb: bool = False, tensorboard: bool = False, about: object = None) -> None:
        self._config, self._about = config, about
        self._wandb, self._tensorboard = wandb, tensorboard
        self._warned = self._late = False
        self._behind: int | None = None  # while rows are before W&B's newest: the first step that it accepts
        self._times_behind = 0
        self._named_sync = False  # a warning has named the command that completes the run
        self._lock = threading.RLock()
        self.run: Run | bool | None = None
        self.wandb: Any = None  # W&B's run here, or ours in the relay; False if W&B is not installed or has failed
        self._client: Client | None = None
        self._relayed: Run | None = None  # the run that the relay delivers to W&B
        self._rows = 0
        self.writer: Any = None  # a replacement of TensorBoard's writer; False for none

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def replace_wandb(self, run: Any) -> None:
        """Send rows to this run of W&B; False: to none; None: to one that starts with the first row."""
        self.wandb, self._wandb = run, run is not False
        self._client = Client(run) if run else None

    def replace_writer(self, writer: Any) -> None:
        """Send rows to this writer of TensorBoard; False: to none; None: to ours."""
        self.writer, self._tensorboard = writer, writer is None

    def log(self, metrics: Mapping[str, object], step: int) -> None:
        self.start()
        if isinstance(self.run, Run):
            self.run.log(metrics, step=step)
            self._rows += 1
        if self.writer:
            self._write(metrics, step)
        if self._client is not None:
            self._send(self._client, metrics, step)
        elif self._wandb and not self._late and wandb_client.is_imported():
            self._late = True
            _logger.warning(
                "wandb was imported after the first logged step, and its run is in another process: wandb.run is None "
                'here, and wandb.log() fails; import wandb earlier, or set relay = "thread" in chiplog.toml '
                "(CHIPLOG_RELAY=thread)"
            )

    def start(self) -> None:
        if self.run is None:
            with self._lock:  # another thread may log an evaluation
                if self.run is None:
                    self.run = self._start()

    def close(self) -> None:
        """Deliver the rest; a failing destination gets little time, and `chiplog sync` completes it later."""
        if self._client is not None:
            try:
                self._client.close()
            except Exception as error:
                _logger.warning(f"WandB is not complete: {words(error)}")
            else:
                self._enrol(self._client, withdraw=True)
            self._client = None
        if isinstance(self.run, Run):
            self._check()
            patience = HOPELESS if self._warned else PATIENCE
            if self._relayed is not None:
                messages.first_missing(self.run.dir, "wandb")
            ended = threading.Event()
            threading.Thread(target=self._watch, args=(ended,), name="chiplog-wandb", daemon=True).start()
            left = self.run.finish(timeout=patience)
            ended.set()
            arrived = self._check() == DONE
            if "wandb" in left.missing and (arrived or not self._named_sync):
                self._named_sync = True
                rows = "all rows" if arrived else f"{self._rows:,} row{'s' * (self._rows != 1)}"
                limit = (
                    "" if self._warned else f" within {patience:.0f} s"
                )  # one that rejects the run is not waited for
                _logger.warning(f"W&B has not confirmed {rows}{limit}; `chiplog sync {self.run.dir}` completes it")

    def _watch(self, ended: threading.Event) -> None:
        """While the run ends: report as soon as it is known that W&B cannot start."""
        while not ended.wait(WATCH):
            self._check()

    def _start(self) -> Run | bool:
        config = self._config
        known_id = self._known_id() if self._wandb else ""
        run_id = known_id or layout.new_id()
        sinks: dict[str, dict[str, Any]] = {}
        if self._wandb and self._client is None and self._is_installed():
            self._client = self._start_here(run_id, known_id)
            if self._client is None and not wandb_client.is_stand_in():
                sinks["wandb"] = {"project": config.wandb_project, **({"id": known_id} if known_id else {})}
        if self._client is not None:
            run_id = str(self._client.id or run_id)
        if self._tensorboard:
            sinks["tensorboard"] = {"folder": config.tensorboard_dir}
        try:
            run = assembly.beside(
                project=getattr(config, "wandb_project", None) or MetricsConfig.wandb_project,
                name=getattr(config, "wandb_run_name", None),
                config=self._about,
                sinks=sinks or "none",
                id=run_id,
                alerts=False,
                reduce=False,  # KempnerForge has no statistics across ranks, and only rank 0 is here
            )
        except Exception as error:
            _logger.warning(f"metrics are not recorded: {error}")
            return False
        if self._client is not None:
            self._enrol(self._client, run)
        if "wandb" in sinks:
            self._relayed = run
            if not self._warned:
                self.wandb = run
            self._set_run_id(run_id)
            run.keep(self._check)
            run.at_finish(self._check)  # before the engine reports what is undelivered
        return run

    def _enrol(self, client: Client, run: Run | bool | None = None, *, withdraw: bool = False) -> None:
        """Let `chiplog sync` send what W&B lacks if this process is killed, and with it the client."""
        run = self.run if run is None else run
        if not isinstance(run, Run) or run.inert or not client.sends:
            return
        try:
            if withdraw:
                destinations.withdraw(run.dir, "wandb", os.environ)
            else:
                options = {"project": self._config.wandb_project, "id": client.id, "by_step": True}
                destinations.enrol(run.dir, "wandb", options, run.identity.cwd, os.environ)
        except OSError as error:
            messages.once(f"kempnerforge enrol {run.dir}", f"`chiplog sync` cannot be prepared: {error}")

    def _known_id(self) -> str:
        """The id to resume: from a checkpoint, or from W&B's own variable."""
        return str(getattr(self._config, "wandb_run_id", None) or os.environ.get("WANDB_RUN_ID") or "")

    def _set_run_id(self, run_id: str | None) -> None:
        """Set `wandb_run_id` of the config, for the checkpoint."""
        if run_id == getattr(self._config, "wandb_run_id", None):
            return
        try:
            self._config.wandb_run_id = run_id
        except Exception as error:  # such as that of a frozen dataclass
            if messages.first(f"kempnerforge id {id(self)}"):
                _logger.warning(f"wandb_run_id = {run_id!r} cannot be written to the config: {words(error)}")

    def _is_installed(self) -> bool:
        if sys.modules.get("wandb") is not None or registry.is_installed("wandb"):
            return True
        self.wandb = False
        _logger.warning("wandb not installed — disabling WandB backend")
        return False

    def _start_here(self, run_id: str, known_id: str) -> Client | None:
        """W&B's own client in this process, if the script uses it."""
        try:
            if not wandb_client.is_wanted():
                return None
            name = getattr(self._config, "wandb_run_name", None)
            started = wandb_client.start(self._config.wandb_project, name, run_id, known_id)
        except Exception as error:
            self._late = True  # this warning says why its run is not here, so the other one is not needed
            self._fail(reason(error))
            return None
        self.wandb = started.native
        self._set_run_id(started.id)
        _logger.info(f"WandB initialized: {getattr(started.native, 'url', None)}")
        return started

    def _send(self, client: Client, metrics: Mapping[str, object], step: int) -> None:
        try:
            first = client.log(metrics, step)
        except Exception as error:
            if not self._warned:
                self._warned = True
                _logger.warning(f"WandB rejects a row: {words(error)}; the journal has it, and training continues")
            return
        if first is not None and first != self._behind and self._times_behind < MOST_BEHIND:
            self._times_behind += 1
            last = "; this is the last such warning" if self._times_behind == MOST_BEHIND else ""
            _logger.warning(
                f"step {step} is before W&B's newest: W&B keeps its rows, and steps below {first} are not sent again; "
                f"the journal has them{last}"
            )
        self._behind = first

    def _write(self, metrics: Mapping[str, object], step: int) -> None:
        try:
            for name, value in metrics.items():
                self.writer.add_scalar(name, value, global_step=step)
        except Exception as error:
            if messages.first(f"kempnerforge writer {id(self)}"):
                _logger.warning(f"TensorBoard's writer fails: {words(error)}; the journal has the row")

    def _check(self) -> float:
        """Report once if W&B cannot start, and read the id that it chose; returns the seconds until the next check.

        The engine reports later failures.
        """
        if self._relayed is None:
            return DONE
        health = self._relayed.health()["sinks"].get("wandb", {})
        if health.get("delivered"):
            if run_id := sink_state(self._relayed, "wandb").get("id"):  # another one if the run was deleted
                self._set_run_id(str(run_id))
            return DONE
        with self._lock:  # it is called from several threads
            if health.get("state") != "failing" or self._warned:
                return FAILED if self._warned else POLL
            self._warned = self._named_sync = True
            why = str(health.get("last_error"))
            messages.first_reason(self._relayed.dir, "wandb", why)
            self._fail(f"{why}; the rows are kept, and `chiplog sync {self._relayed.dir}` sends them later")
        return FAILED if self._warned else POLL

    def _fail(self, why: str) -> None:
        self._warned, self.wandb = True, False
        _logger.warning(f"WandB init failed: {why}")


class _LoggingBackend:
    """The base of the original's backends, and of your own: append one to `tracker._backends`."""

    def log(self, metrics: Mapping[str, object], step: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class _RunBackend(_LoggingBackend):
    """A destination with a run of its own, or one of several of the same run."""

    def __init__(self, config: Any, lazy_run: LazyRun) -> None:
        self._config, self._lazy_run = config, lazy_run

    def log(self, metrics: Mapping[str, object], step: int) -> None:
        self._ensure_init()
        if self._lazy_run.run is not None:
            self._lazy_run.log(metrics, step)

    def close(self) -> None:
        self._lazy_run.close()

    def _ensure_init(self) -> None:
        """Start the run now instead of at the first `log`; not if the destination was switched off before."""
        if self._destination is not False:
            self._lazy_run.start()

    @property
    def _destination(self) -> Any:
        raise NotImplementedError


class WandBBackend(_RunBackend):
    """Weights & Biases. Nothing happens before the first `log`, which sets `config.wandb_run_id`."""

    def __init__(self, config: Any, lazy_run: LazyRun | None = None) -> None:
        super().__init__(config, lazy_run or LazyRun(config, wandb=True))

    @property
    def _run(self) -> Any:
        """As in the original: None before the first `log`, False if W&B is not used."""
        return self._lazy_run.wandb

    @_run.setter
    def _run(self, run: Any) -> None:
        self._lazy_run.replace_wandb(run)

    @property
    def _destination(self) -> Any:
        return self._run


class TensorBoardBackend(_RunBackend):
    """An event file in `config.tensorboard_dir`, from the first `log` on."""

    def __init__(self, config: Any, lazy_run: LazyRun | None = None) -> None:
        super().__init__(config, lazy_run or LazyRun(config, tensorboard=True))

    @property
    def _writer(self) -> Any:
        """None before the first `log`, False if TensorBoard is not used."""
        return self._lazy_run.run if self._lazy_run.writer is None else self._lazy_run.writer

    @_writer.setter
    def _writer(self, writer: Any) -> None:
        self._lazy_run.replace_writer(writer)

    @property
    def _destination(self) -> Any:
        return self._writer
