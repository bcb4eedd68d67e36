"""The stages and rules that the settings of a run ask for; each is imported only if it is needed."""

from __future__ import annotations

from chiplog.core.errors import BadSetting
from chiplog.core.protocols import Rule, Stage
from chiplog.metrics.rules.outliers import Outliers


def stages(smooth: float | None) -> list[Stage]:
    if smooth is None:
        return []
    from chiplog.metrics.smoothing import Smoothing

    try:
        return [Smoothing(smooth)]
    except ValueError as error:
        raise BadSetting(f"smooth = {smooth!r}: {error}") from None


def rules(alerts: bool | str) -> list[Rule]:
    if not alerts:
        return []
    if alerts != "all":
        return [Outliers()]
    from chiplog.metrics.rules import limits, speed, trends

    return [
        Outliers(), trends.Trend(), speed.Slowdown(), speed.Stall(), limits.Throttled(), *limits.Limit.defaults()
    ]  # fmt: skip
