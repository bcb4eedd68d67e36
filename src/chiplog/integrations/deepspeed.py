"""DeepSpeed: `import chiplog.integrations.deepspeed` before `deepspeed.initialize(...)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deepspeed.monitor import monitor

from chiplog.core import messages
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

DEEPSPEED = Framework("DeepSpeed", "deepspeed", "0.19")


@hook(DEEPSPEED, None)
def write_events(run: FrameworkRun, event_list: Iterable[tuple[str, Any, int]]) -> None:
    """Record the events of DeepSpeed's monitor in the first process: one row per step. Its steps count samples."""
    if not _is_first():
        return
    rows: dict[int, dict[str, object]] = {}
    for label, value, step in event_list:
        rows.setdefault(step, {})[str(label)] = value
    for step, row in rows.items():
        run.log(row, step)


def _install() -> None:
    """Enable every monitor that DeepSpeed makes, and record what it is given."""
    master = getattr(monitor, "MonitorMaster", None)
    if master is None or not hasattr(master, "write_events"):
        messages.say(f"{DEEPSPEED.shape()}; nothing is recorded")
        return
    if hasattr(master, "_chiplog"):
        return
    make, write = master.__init__, master.write_events

    def enabled(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self.enabled, self._chiplog = True, FrameworkRun("DeepSpeed")

    def recorded(self: Any, event_list: Any, *args: Any, **kwargs: Any) -> Any:
        events = list(event_list)
        write_events(self._chiplog, events)
        return write(self, events, *args, **kwargs)

    master.__init__, master.write_events, master._chiplog = enabled, recorded, None


@hook(DEEPSPEED, True)
def _is_first() -> bool:
    return bool(monitor.dist.get_rank() == 0)


_install()
