"""From the options in a config to export functions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from chiplog.core import messages
from chiplog.core.errors import BadSetting
from chiplog.frontends.tunix.perf import export
from chiplog.frontends.tunix.perf.experimental import export as export_v2
from chiplog.frontends.tunix.perf.metrics import PerfMetricsConfig
from chiplog.frontends.tunix.perf.trace_export import Traced, trace_of
from chiplog.frontends.tunix.perf.trace_files import TraceFiles


def create_perf_config(cluster_config: Any) -> PerfMetricsConfig | None:
    """Return the export functions that `perf_metrics_options` in the training config ask for; None without options.

    Every mistake in the options is an error here, before training.
    """
    options = export.options_of(cluster_config)
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
    """Return the same functions, with a trace file in addition to a user's function if options ask for one."""
    options = export.options_of(cluster_config)
    if options is None or not options.enable_trace_writer:
        return config
    trace_dir, devices = options.trace_dir or None, export.role_devices(cluster_config)
    first, second = config.custom_export_fn, config.custom_export_fn_v2
    if first is not None and trace_of(first) is None:
        first = Traced(first, TraceFiles(trace_dir, "perfetto_trace", devices))
    if second is not None and trace_of(second) is None:
        second = Traced(second, TraceFiles(trace_dir, "perfetto_trace_v2", devices))
    return PerfMetricsConfig(first, second)


def load(path: str, key: str, version: str = "") -> Callable[[Any], Any]:
    """Import a function; a failure names the key, the path and the reason."""
    module, _, name = path.rpartition(".")
    try:
        if not module:
            raise ValueError("it has no dot: use module.function")
        function: Callable[[Any], Any] = getattr(import_module(module), name)
        if not callable(function):
            raise ValueError(f"it is not a function, but {function!r:.100}")
    except Exception as error:  # the user's module may raise anything
        raise BadSetting(
            f"Could not load custom export function{version} from {path} ({key}): {type(error).__name__}: {error}"
        ) from error
    return function
