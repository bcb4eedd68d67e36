"""One run per trial of a search, beside the script's current run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chiplog.core.run import Run
from chiplog.integrations.shared.framework_run import FrameworkRun


class TrialRuns:
    """The open runs of trials, by the framework's key; trials may be on several threads."""

    def __init__(self, framework: str, **settings: Any) -> None:
        self.framework, self.settings = framework, settings
        self._open: dict[object, FrameworkRun] = {}

    def start(self, key: object, config: Mapping[str, object] | None = None, **settings: Any) -> Run | None:
        """The run of a trial: started now, unless it is open."""
        hooks = self._open.get(key)
        if hooks is None:
            hooks = self._open.setdefault(key, FrameworkRun(self.framework, **self.settings))
        return hooks.start(config, apart=True, **settings)

    def run(self, key: object) -> Run | None:
        """The run of a trial, if it is open."""
        hooks = self._open.get(key)
        return None if hooks is None else hooks.run

    def end(self, key: object, state: str = "", reason: str = "") -> None:
        """End the run of a trial; later hooks of the same trial start another."""
        if (hooks := self._open.pop(key, None)) is not None:
            hooks.end(state=state, reason=reason)

    def __len__(self) -> int:
        return len(self._open)

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process has the same settings, and no open runs."""
        return {**self.__dict__, "_open": {}}
