"""The run that a framework's hooks write to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from chiplog import assembly
from chiplog.core import messages
from chiplog.core import run as engine
from chiplog.core.engine.shutdown import ending
from chiplog.core.errors import ChiplogError
from chiplog.core.guarded import failed
from chiplog.core.identity import Identity
from chiplog.core.run import Run
from chiplog.runtime.ranks import detect


class FrameworkRun:
    """A run that was passed in, the script's current run, or one of its own, which it starts and ends.

    Hooks may come in any order, twice, after the end, or in a copy in another process. Whatever fails here is reported
    once and never raised into training. The settings are those of `chiplog.init`.
    """

    _done: ClassVar[FrameworkRun | None] = None  # whose training has ended last, and whose run is still open

    def __init__(self, framework: str, run: Run | None = None, **settings: Any) -> None:
        self.framework = framework
        self._config = settings.pop("config", None)
        self.settings = settings
        self._passed = run
        self._run: Run | None = run
        self._own = False
        self._pid = os.getpid()

    @property
    def run(self) -> Run | None:
        """The run, if it has been started and has not ended."""
        return self._run

    @property
    def own(self) -> bool:
        """Whether the run was started here, and ends here."""
        return self._own

    def start(self, config: object = None, *, apart: bool = False, **settings: Any) -> Run | None:
        """The run: started now, unless there is one. What the user has set goes before `settings`.

        `apart`: a run of its own even if the script has a current run, such as for one trial of many.
        """
        if FrameworkRun._done not in (None, self):
            FrameworkRun._end_done()
        if self._run is not None and not (self._own and self._run.inert and self._pid == os.getpid()):
            return self._run
        if self._passed is None and not apart and engine.current is not None and not engine.current.inert:
            self._run, self._own = engine.current, False
            self.describe(config)
            self.describe(self._config)
            return self._run
        try:
            self._run = assembly.beside(config, **{**_for_one_process(), **_unset(settings), **self.settings})
        except ChiplogError as error:  # a setting, a missing run: the same at every hook
            messages.say(f"{self.framework}: no run could be started, so nothing is kept: {error}")
            self._run = engine.inert(Identity("", "", Path(), "", ""), reason="")
        except Exception as error:
            failed(f"{self.framework}: starting a run", error)
            return None
        self._own, self._pid = True, os.getpid()
        self.describe(self._config)
        return self._run

    def describe(self, config: object) -> None:
        """Add to the run's configuration."""
        if self._run is not None and config:
            try:
                self._run.config.update(config if isinstance(config, Mapping) else vars(config))
            except Exception as error:
                failed(f"{self.framework}: the configuration", error)

    def log(self, metrics: Mapping[str, object], step: int | float | None = None) -> None:
        """`Run.log`, starting the run if need be."""
        if (run := self._run if self._run is not None else self.start()) is not None:
            run.log(metrics, step)

    def end(self, error: BaseException | None = None, *, state: str = "", reason: str = "") -> None:
        """End the run if it was started here; with the error that ended training, or a state by name."""
        run, self._run = self._run, self._passed
        if run is None or not self._own:
            return
        self._own = False
        ended, why = ending(error)
        try:
            run.finish(state=state or ended, reason=reason or why)
        except Exception as problem:
            failed(f"{self.framework}: finishing the run", problem)

    def done(self) -> None:
        """Training has ended, but evaluations may follow: the run stays open until the next training."""
        if self._own:
            FrameworkRun._done = self

    def begin(self) -> None:
        """Training is about to begin: if an earlier one has ended, so does its run."""
        FrameworkRun._end_done()

    @staticmethod
    def _end_done() -> None:
        earlier, FrameworkRun._done = FrameworkRun._done, None
        if earlier is not None:
            earlier.end()

    def token(self) -> str | None:
        """What to save in a checkpoint, so that training from it is an attempt of the same run."""
        return None if self._run is None or self._run.inert else self._run.resume_token()

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process starts with the same settings, and with no run of its own."""
        return {**self.__dict__, "_run": None, "_passed": None, "_own": False}


def _unset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that no variable of the environment sets."""
    return {name: value for name, value in settings.items() if f"CHIPLOG_{name.upper()}" not in os.environ}


def _for_one_process() -> dict[str, Any]:
    """Hooks are called in one process of a job: it keeps the run, whatever its rank, and waits for no other."""
    mine = detect.detect(os.environ)
    return _unset({"ranks": mine.rank, "reduce": False}) if mine.world > 1 else {}
