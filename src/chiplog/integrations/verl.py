"""verl: `VERL_USE_EXTERNAL_MODULES=chiplog.integrations.verl`, and `trainer.logger=["console","chiplog"]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verl.utils import tracking

from chiplog.core import messages
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

VERL = Framework("verl", "verl", "0.9")
NAME = "chiplog"


class ChiplogTracking:
    """What verl's `Tracking` needs of a backend."""

    def __init__(self, project_name: str, experiment_name: str, config: Any = None) -> None:
        self._hooks = FrameworkRun("verl")
        self._start(project_name, experiment_name, config)

    @hook(VERL, None)
    def _start(self, project_name: str, experiment_name: str, config: Any) -> None:
        self._hooks.start(config, project=str(project_name), name=str(experiment_name))

    @hook(VERL, None)
    def log(self, data: Mapping[str, Any], step: int, **_: Any) -> None:
        self._hooks.log(data, step)

    @hook(VERL, None)
    def finish(self, exit_code: int = 0) -> None:
        self._hooks.end(state="failed" if exit_code else "", reason=f"exit code {exit_code}" if exit_code else "")


def _install() -> None:
    """Add the backend to those that `Tracking` knows."""
    tracker = getattr(tracking, "Tracking", None)
    if tracker is None or not isinstance(getattr(tracker, "supported_backend", None), list):
        messages.say(f"{VERL.shape()}; nothing is recorded")
        return
    if NAME in tracker.supported_backend:
        return
    tracker.supported_backend.append(NAME)
    make, finish = tracker.__init__, getattr(tracker, "finish", None)

    def made(
        self: Any, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None
    ) -> None:
        make(self, project_name, experiment_name, default_backend, config)
        if NAME in ([default_backend] if isinstance(default_backend, str) else list(default_backend)):
            self.logger[NAME] = ChiplogTracking(project_name, experiment_name, config)

    def finished(self: Any, exit_code: int = 0) -> Any:
        if (ours := getattr(self, "logger", {}).get(NAME)) is not None:
            ours.finish(exit_code)
        return None if finish is None else finish(self, exit_code)

    tracker.__init__ = made
    tracker.finish = finished


_install()
