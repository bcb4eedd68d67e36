"""Questions about recorded spans (`PerfSpanQuery`), what is done with them, and the options of a config file."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chiplog.core import messages
from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.frontends.tunix.perf.recorder import Arrivals
from chiplog.frontends.tunix.perf.span import SpanGroup
from chiplog.metrics.step_values.reducers import MetricsT, Reducer

__all__ = ["MetricsBuffer", "MetricsT", "PerfMetricsConfig", "PerfMetricsOptions", "PerfSpanQuery"]

SECTIONS = ("rl_training_config", "training_config")  # of a config file that may hold the options

SWITCHES = {"true": True, "false": False}  # as a command line has them

Selector = tuple[str, str, int]  # which, name, place


class PerfSpanQuery:
    """Groups of spans by timeline and name, from the outermost inwards.

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
        self.arrivals = arrivals or Arrivals()  # what it was made of, for writers of traces

    def __call__(self) -> PerfSpanQuery:
        """A query of its own that goes on from here."""
        return copy.copy(self)

    def main(self) -> PerfSpanQuery:
        """On the main thread."""
        return self.timeline(self._main)

    def timeline(self, id: str) -> PerfSpanQuery:
        """On a thread or a device; the last one that is named counts."""
        self._timeline = id
        return self

    def first_group(self, name: str) -> PerfSpanQuery:
        """The first of this name in each group so far."""
        return self._select("first", name)

    def last_group(self, name: str) -> PerfSpanQuery:
        """The last of this name in each group so far."""
        return self._select("last", name)

    def nth_group(self, name: str, index: int) -> PerfSpanQuery:
        """The one at this place, from 0 on, in each group so far; none where there are fewer."""
        return self._select("nth", name, index)

    def all_groups(self, name: str) -> PerfSpanQuery:
        """All of this name in each group so far."""
        return self._select("all", name)

    def get(self) -> list[SpanGroup]:
        """The groups that were selected; the root of the timeline where no group was named."""
        if self._timeline not in self._timelines:
            raise ValueError(f"timeline '{self._timeline}' not found; there are: {', '.join(self._timelines)}")
        if self._timeline not in self._trees:
            self._trees[self._timeline] = self._tree(self._timeline)
        found = [self._trees[self._timeline]]
        for which, name, place in self._selectors:
            found = [one for group in found for one in _chosen(group.find_all_inner_groups(name), which, place)]
        return found

    def get_main_thread_id(self) -> str:
        return self._main

    def get_timeline_ids(self) -> list[str]:
        return list(self._timelines)

    def _select(self, which: str, name: str, place: int = 0) -> PerfSpanQuery:
        self._selectors = (*self._selectors, (which, name, place))
        return self


@dataclasses.dataclass(slots=True)
class MetricsBuffer:
    """All that was logged about a global step, as it came; what a cluster's external metrics logger is called with."""

    global_steps: int
    metrics: dict[str, tuple[list[Any], Reducer | None]] = dataclasses.field(default_factory=dict)
    mode: str = "train"


@dataclasses.dataclass
class PerfMetricsConfig:
    """What is done with the spans of every global step; a version without a function records nothing."""

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
    def of(cls, given: PerfMetricsOptions | Mapping[str, Any] | None) -> PerfMetricsOptions | None:
        """Options from a mapping; none of nothing. Fails with the key and the choices there are.

        A mapping may name the export function of a version that it switches off: that is reported, and not an error.
        """
        if given is None or isinstance(given, PerfMetricsOptions):
            return given
        if not isinstance(given, Mapping):
            raise BadSetting(f"perf_metrics_options is a mapping, not {given!r:.100}; its keys are: {_keys(cls)}")
        if not given:
            return None
        kinds = {field.name: type(field.default) for field in dataclasses.fields(cls)}
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            if key not in kinds:
                raise BadSetting(f"perf_metrics_options has no {key!r}; there are: {_keys(cls)}")
            chosen[key] = SWITCHES.get(str(value).lower(), value) if kinds[key] is bool else value
            if not isinstance(chosen[key], kinds[key]):
                raise BadSetting(f"perf_metrics_options.{key} = {value!r}: must be a {kinds[key].__name__}")
        try:
            return cls(**_without_idle_paths(chosen))
        except BadSetting as error:
            raise BadSetting(f"Invalid perf metrics options: {error}") from None

    @classmethod
    def from_yaml(cls, text: str) -> PerfMetricsOptions | None:
        """The options under `rl_training_config`, or `training_config`, in a YAML text."""
        return cls.from_document(read_yaml(text))

    @classmethod
    def from_document(cls, document: Any) -> PerfMetricsOptions | None:
        """The same, of what was read from a file or from the command line."""
        sections = [document.get(key) for key in SECTIONS] if isinstance(document, Mapping) else []
        found = [section.get("perf_metrics_options") for section in sections if isinstance(section, Mapping)]
        return cls.of(next(filter(None, found), None))


def read_yaml(text: str) -> Any:
    """What a YAML text says; an empty one says nothing."""
    try:
        import yaml
    except ImportError:
        raise MissingPackage("reading a YAML config needs the package 'pyyaml': pip install pyyaml") from None
    document = yaml.safe_load(text)
    return {} if document is None else document


def _without_idle_paths(given: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(given)
    for switch, path in (("enable_perf_v1", "custom_export_fn_path"), ("enable_perf_v2", "custom_export_fn_path_v2")):
        if kept.get(path) and kept.get(switch) is False:
            messages.once(f"tunix {path}", f"{path} = {kept.pop(path)!r} is not used: {switch} is false")
    return kept


def _keys(kind: Any) -> str:
    return ", ".join(field.name for field in dataclasses.fields(kind))


def _chosen(groups: list[SpanGroup], which: str, place: int) -> list[SpanGroup]:
    if which == "all":
        return groups
    if which == "first":
        return groups[:1]
    if which == "last":
        return groups[-1:]
    return groups[place : place + 1] if place >= 0 else []
