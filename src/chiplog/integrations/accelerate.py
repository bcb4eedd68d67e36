"""Accelerate: `import chiplog.integrations.accelerate`, then `Accelerator(log_with="chiplog")`.

Settings of `chiplog.init`: `init_trackers("tiny-lm", init_kwargs={"chiplog": {"tags": ["a"]}})`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from accelerate import tracking

from chiplog.core import messages
from chiplog.core.run import Run
from chiplog.core.values.media import Image
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

ACCELERATE = Framework("Accelerate", "accelerate", "1.10 to 1.15")


class ChiplogTracker(tracking.GeneralTracker):
    """Records what `accelerator.log` is given; `get_tracker("chiplog").tracker` is the run.

    As with Accelerate's other trackers, the main process logs.
    """

    name = "chiplog"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, run_name: str, run: Run | None = None, **settings: Any) -> None:
        super().__init__()
        self.run_name = run_name
        self._hooks = FrameworkRun("Accelerate", run, **settings)

    @property
    def tracker(self) -> Run | None:
        return self._hooks.run

    @hook(ACCELERATE, None)
    def start(self) -> None:
        """Called when the process group exists."""
        self._hooks.start(project=self.run_name)

    @hook(ACCELERATE, None)
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        self._hooks.start(project=self.run_name)
        self._hooks.describe(values)

    @hook(ACCELERATE, None)
    def log(self, values: Mapping[str, Any], step: int | None = None, **_: Any) -> None:
        self._hooks.log(values, step)

    @hook(ACCELERATE, None)
    def log_images(self, values: Mapping[str, Iterable[Any]], step: int | None = None, **_: Any) -> None:
        self._hooks.log({name: [Image(one) for one in images] for name, images in values.items()}, step)

    @hook(ACCELERATE, None)
    def log_table(
        self,
        table_name: str,
        columns: list[str] | None = None,
        data: Iterable[Iterable[Any]] | None = None,
        dataframe: Any = None,
        step: int | None = None,
        **_: Any,
    ) -> None:
        rows = (
            dataframe if dataframe is not None else [dict(zip(columns or (), row, strict=False)) for row in data or ()]
        )
        if (run := self._hooks.run) is not None:
            run.table(table_name, rows, step)

    @hook(ACCELERATE, None)
    def finish(self) -> None:
        self._hooks.end()


def _register() -> None:
    """Let `log_with="chiplog"` find the tracker."""
    register = getattr(tracking, "register_tracker_class", None)
    if register is None:
        advice = 'log_with=[ChiplogTracker("tiny-lm")] works here'
        messages.say(f'{ACCELERATE.shape()}; log_with="chiplog" needs 1.15 or newer, and {advice}')
    elif "chiplog" not in tracking.LOGGER_TYPE_TO_CLASS:
        register(ChiplogTracker)


_register()
