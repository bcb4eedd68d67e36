"""A progress bar for a terminal, with the means of some metrics."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from chiplog.core import messages
from chiplog.core.errors import MissingPackage
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, Mode, mode_of

OPTIONAL = ("learning_rate",)  # metrics that many trainers do not log


class ProgressBar:
    """Steps out of `max_steps`; next to it the means over the run, as `{prefix}_{mode}_{metric}`."""

    def __init__(
        self,
        metrics_logger: MetricsLogger,
        initial_steps: int,
        max_steps: int,
        description: str | None = None,
        metrics_prefix: str = "",
    ) -> None:
        try:
            tqdm = import_module("tqdm.auto").tqdm
        except ImportError:
            raise MissingPackage("a progress bar needs the package 'tqdm': pip install tqdm") from None
        self.metrics_logger, self.metrics_prefix = metrics_logger, metrics_prefix
        self.initial_steps, self.max_steps, self.description = initial_steps, max_steps, description
        self.metrics: dict[str, float] = {}
        self.tqdm_bar = tqdm(total=max_steps, initial=initial_steps, desc=description, unit="step", dynamic_ncols=True)

    def update_metrics(self, metric_names: Iterable[str], mode: Mode | str, ndigits: int = 3) -> None:
        """Show the current means of these metrics; those of training come first."""
        word = mode_of(mode)
        for name in metric_names:
            if self.metrics_logger.metric_exists(self.metrics_prefix, name, mode):
                key = "_".join(filter(None, (self.metrics_prefix, word, name)))
                mean = self.metrics_logger.get_metric(self.metrics_prefix, name, mode)
                self.metrics[key] = round(float(mean), ndigits)
            elif name not in OPTIONAL:
                messages.once(f"tunix bar {word} {name}", f"no metric {name!r} ({word}) to show next to the bar")

    def update(self, n: int = 1) -> None:
        """Advance the bar by `n` steps."""
        if self.metrics:
            by_mode = sorted(self.metrics.items(), key=lambda item: f"{Mode.EVAL}_" in item[0])
            self.tqdm_bar.set_postfix(dict(by_mode), refresh=False)
        self.tqdm_bar.update(n)

    def close(self) -> None:
        self.tqdm_bar.close()
