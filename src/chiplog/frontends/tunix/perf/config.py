"""From the options of a config file to export functions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from chiplog.core import messages
from chiplog.core.errors import BadSetting
from chiplog.frontends.tunix.perf import export, trace_files
from chiplog.frontends.tunix.perf.experimental import export as export_v2
from chiplog.frontends.tunix.perf.metrics import PerfMetricsConfig, PerfMetricsOptions
from chiplog.metrics.step_values.reducers import MetricsT


def create_perf_config(cluster_config: Any) -> PerfMetricsConfig | None:
    """The export functions that `perf_metrics_options` in the training config asks for; None where it is not there.

    Everything that can be wrong with the options is an error here, before any training.
    """
    options = PerfMetricsOptions.of(getattr(cluster_config.training_config, "perf_metrics_options", None))
    if options is None:
        return None
    if options.trace_dir and not options.enable_trace_writer:
        messages.once("tunix trace_dir", f"trace_dir = {options.trace_dir!r} is not used: enable_trace_writer is false")
    config = PerfMetricsConfig()
    if options.enable_perf_v1:
        if options.custom_export_fn_path:
            config.custom_export_fn = load(options.custom_export_fn_path, "custom_export_fn_path")
        else:
            config.custom_export_fn = export.PerfMetricsExport.from_cluster_config(cluster_config)
    if options.enable_perf_v2:
        if options.custom_export_fn_path_v2:
            config.custom_export_fn_v2 = load(options.custom_export_fn_path_v2, "custom_export_fn_path_v2", " v2")
        else:
            config.custom_export_fn_v2 = export_v2.PerfMetricsExport.from_cluster_config(
                cluster_config, options.enable_trace_writer, options.trace_dir or None
            ).export_metrics
    return config


def with_traces(config: PerfMetricsConfig, cluster_config: Any) -> PerfMetricsConfig:
    """The same functions; one that is not ours has the trace file beside it that the options ask for."""
    options = PerfMetricsOptions.of(getattr(cluster_config.training_config, "perf_metrics_options", None))
    if options is None or not options.enable_trace_writer:
        return config
    first, second = config.custom_export_fn, config.custom_export_fn_v2
    if first is not None and not trace_files.is_ours(first):
        first = Traced(first, export.PerfMetricsExport.from_cluster_config(cluster_config))
    if second is not None and not trace_files.is_ours(second):
        exporter = export_v2.PerfMetricsExport.from_cluster_config(cluster_config, True, options.trace_dir or None)
        second = Traced(second, exporter)
    return PerfMetricsConfig(first, second)


class Traced:
    """An export function of one's own, and an exporter of ours that writes the trace."""

    def __init__(self, function: Callable[[Any], MetricsT], exporter: Any) -> None:
        self._function, self._exporter = function, exporter
        self.writer, self.flush, self.write = exporter.writer, exporter.flush, exporter.write

    def __call__(self, recorded: Any) -> MetricsT:
        self._exporter.write(recorded)
        return self._function(recorded)


def load(path: str, key: str, version: str = "") -> Callable[..., Any]:
    """A function by its import path; fails with the key, the path and the reason."""
    module, _, name = path.rpartition(".")
    try:
        if not module:
            raise ValueError("it has no dot: give module.function")
        found = getattr(import_module(module), name)
        if not callable(found):
            raise ValueError(f"it is no function, but {found!r:.100}")
    except Exception as error:  # the module is the user's own, and may raise anything
        raise BadSetting(
            f"Could not load custom export function{version} from {path} ({key}): {type(error).__name__}: {error}"
        ) from error
    function: Callable[..., Any] = found
    return function
