"""Queries over recorded spans (`PerfSpanQuery`), export functions, and the options of a config file."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chiplog.core import messages
from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.frontends.tunix.perf.shared_tracer import Arrivals
from chiplog.frontends.tunix.perf.span import SpanGroup
from chiplog.metrics.step_values.reducers import MetricsT, Reducer

__all__ = ["MetricsBuffer", "MetricsT", "PerfMetricsConfig", "PerfMetricsOptions", "PerfSpanQuery"]

SECTIONS = ("rl_training_config", "training_config")  # of a config file that may contain the options

SWITCHES = {"true": True, "false": False}  # on a command line

Selector = tuple[str, slice]  # a name, and which of its groups
ALL, FIRST, LAST, NONE = slice(None), slice(1), slice(-1, None), slice(0)


class PerfSpanQuery:
    """Groups of spans by timeline and name, from the outermost to the innermost.

    >>> query().main().last_group("global_step").all_groups("micro_batch_steps").get()
    """

    def __init__(
        self,
        tree: Callable[[str], SpanGroup],
        timelines: Sequence[str],
        main: str,
        devices: Sequence[str] = (),
        arrivals: Arrivals | None = None,
    ) -> None:
        self._tree = tree
        self._timelines = list(dict.fromkeys([*timelines, *devices]))
        self._main = main
        self._trees: dict[str, SpanGroup] = {}
        self._timeline: str | None = None
        self._selectors: tuple[Selector, ...] = ()
        self.arrivals = arrivals or Arrivals()  # its spans, for trace writers

    def __call__(self) -> PerfSpanQuery:
        """Return a copy, which can be continued independently."""
        return copy.copy(self)

    def main(self) -> PerfSpanQuery:
        """Select the main thread."""
        return self.timeline(self._main)

    def timeline(self, id: str) -> PerfSpanQuery:
        """Select a thread or a device; a later choice replaces an earlier one."""
        self._timeline = id
        return self

    def first_group(self, name: str) -> PerfSpanQuery:
        """Select the first group of this name in each selected group."""
        return self._select(name, FIRST)

    def last_group(self, name: str) -> PerfSpanQuery:
        """Select the last group of this name in each selected group."""
        return self._select(name, LAST)

    def nth_group(self, name: str, index: int) -> PerfSpanQuery:
        """Select the group of this name at an index, from 0, in each selected group; none if there are fewer."""
        return self._select(name, slice(index, index + 1) if index >= 0 else NONE)

    def all_groups(self, name: str) -> PerfSpanQuery:
        """Select all groups of this name in each selected group."""
        return self._select(name, ALL)

    def get(self) -> list[SpanGroup]:
        """Return the selected groups; the root of the timeline if none was selected."""
        if self._timeline not in self._timelines:
            raise ValueError(f"timeline '{self._timeline}' not found; available: {', '.join(self._timelines)}")
        if self._timeline not in self._trees:
            self._trees[self._timeline] = self._tree(self._timeline)
        groups = [self._trees[self._timeline]]
        for name, which in self._selectors:
            groups = [one for group in groups for one in group.find_all_inner_groups(name)[which]]
        return groups

    def get_main_thread_id(self) -> str:
        return self._main

    def get_timeline_ids(self) -> list[str]:
        return list(self._timelines)

    def _select(self, name: str, which: slice) -> PerfSpanQuery:
        self._selectors = (*self._selectors, (name, which))
        return self


@dataclasses.dataclass(slots=True)
class MetricsBuffer:
    """The values of a global step, in the order of the calls: the argument of an external metrics logger."""

    global_steps: int
    metrics: dict[str, tuple[list[Any], Reducer | None]] = dataclasses.field(default_factory=dict)
    mode: str = "train"


@dataclasses.dataclass
class PerfMetricsConfig:
    """The export functions, called at every global step; a version without a function records nothing."""

    custom_export_fn: Callable[[PerfSpanQuery], MetricsT] | None = None
    custom_export_fn_v2: Callable[[Any], MetricsT] | None = None


@dataclasses.dataclass(frozen=True)
class PerfMetricsOptions:
    """`perf_metrics_options` of a config file."""

    enable_perf_v1: bool = True
    enable_perf_v2: bool = False
    custom_export_fn_path: str = ""
    custom_export_fn_path_v2: str = ""
    enable_trace_writer: bool = True
    trace_dir: str = ""

    def __post_init__(self) -> None:
        if self.custom_export_fn_path and not self.enable_perf_v1:
            raise BadSetting("custom_export_fn_path is set but enable_perf_v1 is False.")
        if self.custom_export_fn_path_v2 and not self.enable_perf_v2:
            raise BadSetting("custom_export_fn_path_v2 is set but enable_perf_v2 is False.")
        if self.enable_trace_writer and not (self.enable_perf_v1 or self.enable_perf_v2):
            raise BadSetting("enable_trace_writer is True but neither perf v1 nor v2 is enabled.")

    @classmethod
    def of(cls, options: PerfMetricsOptions | Mapping[str, object] | None) -> PerfMetricsOptions | None:
        """Return options from a mapping; None from nothing. An error names the key and the choices.

        A mapping may name the export function of a version that it switches off, which is reported.
        """
        if options is None or isinstance(options, PerfMetricsOptions):
            return options
        kinds = {field.name: type(field.default) for field in dataclasses.fields(cls)}
        if not isinstance(options, Mapping):
            raise BadSetting(
                f"perf_metrics_options must be a mapping, not {options!r:.100}; its keys are: {', '.join(kinds)}"
            )
        if not options:
            return None
        chosen: dict[str, Any] = {}
        for key, value in options.items():
            if key not in kinds:
                raise BadSetting(f"perf_metrics_options has no {key!r}; available: {', '.join(kinds)}")
            chosen[key] = SWITCHES.get(str(value).lower(), value) if kinds[key] is bool else value
            if not isinstance(chosen[key], kinds[key]):
                raise BadSetting(f"perf_metrics_options.{key} = {value!r}: must be a {kinds[key].__name__}")
        try:
            return cls(**_without_unused_paths(chosen))
        except BadSetting as error:
            raise BadSetting(f"Invalid perf metrics options: {error}") from None

    @classmethod
    def from_yaml(cls, text: str) -> PerfMetricsOptions | None:
        """Return the options under `rl_training_config` or `training_config` in a YAML text."""
        return cls.from_document(read_yaml(text))

    @classmethod
    def from_document(cls, document: object) -> PerfMetricsOptions | None:
        """Do the same for a parsed file or command line."""
        sections = [document.get(key) for key in SECTIONS] if isinstance(document, Mapping) else []
        options = (section.get("perf_metrics_options") for section in sections if isinstance(section, Mapping))
        return cls.of(next(filter(None, options), None))


def read_yaml(text: str) -> object:
    """Parse YAML; an empty text is an empty mapping."""
    try:
        import yaml
    except ImportError:
        raise MissingPackage("reading a YAML config needs the package 'pyyaml': pip install 'chiplog[yaml]'") from None
    document = yaml.safe_load(text)
    return {} if document is None else document


def _without_unused_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(options)
    for switch, path in (("enable_perf_v1", "custom_export_fn_path"), ("enable_perf_v2", "custom_export_fn_path_v2")):
        if kept.get(path) and kept.get(switch) is False:
            messages.once(f"tunix {path}", f"{path} = {kept.pop(path)!r} is not used: {switch} is false")
    return kept
