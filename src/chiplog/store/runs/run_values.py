"""What runs can be asked for by name, for lists: their fields, settings and metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from chiplog.core.errors import BadQuery
from chiplog.core.suggestions import did_you_mean, some
from chiplog.core.values.flatten import flatten
from chiplog.core.values.text import words
from chiplog.metrics.catalog import pick_loss
from chiplog.store import manifest
from chiplog.store.reader import Stored
from chiplog.store.runs.query import FIELDS, Query, Value
from chiplog.store.runs.summary_cache import MOST, Entry, scalar, stamp_of, summarize

CONFIG, METRIC = "config.", "metric."  # before a key that is both


class RunValues:
    """The values of one run by key. What its summary lacks is read when it is needed, unless it is `shallow`."""

    def __init__(self, path: Path, entry: Entry, *, shallow: bool = False) -> None:
        self.path, self.entry = path, entry
        self._shallow = shallow

    @cached_property
    def config(self) -> Mapping[str, Value]:
        """The settings, flat: `model.dim`."""
        if len(self.entry.config) < MOST:
            return self.entry.config
        whole = manifest.load(self.path).config
        return {name: scalar(value) for name, value in flatten(whole, ".", deepest=20)}

    @cached_property
    def metrics(self) -> Mapping[str, Value]:
        """The last value of every metric, and what the run added to its summary."""
        if self.entry.reason:
            return {}
        if self._shallow:
            return self.entry.values
        try:
            return {name: scalar(value) for name, value in Stored(self.path).summary.items()}
        except ImportError:  # its journal is compressed, and pyarrow is not installed
            return dict(self.entry.values)
        except Exception as error:  # one run never takes the list of all with it
            self.entry.state, self.entry.trouble = "damaged", words(error)
            return dict(self.entry.values)

    def metric(self, name: str) -> Value:
        """The last value of one metric; seldom needs the whole journal."""
        return self.entry.values[name] if name in self.entry.values else self.metrics.get(name)

    def field(self, name: str) -> Value:
        entry = self.entry
        if name == "tag":
            return entry.tags
        if name == "loss":
            return pick_loss(entry.values)
        if name == "started":
            return entry.started / 1e9
        if name == "ran":
            return entry.seconds
        if name == "age":
            return time.time() - entry.started / 1e9
        value: Value = getattr(entry, name)
        return value


class Keys:
    """What the keys of a query mean in a list of runs; an unknown one is an error that lists similar ones."""

    def __init__(self, runs: Sequence[RunValues]) -> None:
        self._runs = runs
        self._meanings: dict[str, Callable[[RunValues], Value]] = {}

    def value(self, run: RunValues, key: str) -> Value:
        """The value of a key in a run; None if it has none."""
        meaning = self._meanings.get(key)
        if meaning is None:
            meaning = self._meanings[key] = self._resolve(key)
        return meaning(run)

    def check(self, keys: Iterable[str]) -> None:
        """Raise if no run has one of these."""
        for key in keys:
            if self._runs and key not in self._meanings:
                self._meanings[key] = self._resolve(key)

    def _resolve(self, key: str) -> Callable[[RunValues], Value]:
        runs = self._runs
        if key == "tags" and not any(key in run.config for run in runs):
            return lambda run: run.field("tag")
        if key.startswith(CONFIG):
            return _setting(key.removeprefix(CONFIG))
        if key.startswith(METRIC):
            return _metric(key.removeprefix(METRIC))
        is_setting = any(key in run.config for run in runs)
        is_metric = any(key in run.entry.values for run in runs)
        if key == "loss" and is_metric and not is_setting:  # some runs have it, others call theirs `train/loss`
            return lambda run: run.entry.values["loss"] if "loss" in run.entry.values else run.field("loss")
        if key in FIELDS and not (key == "loss" and is_setting):
            return lambda run: run.field(key)
        if is_setting:
            return _setting(key)
        if any(key.replace("/", ".") in run.config for run in runs):  # as `compare` and the page write it
            return _setting(key.replace("/", "."))
        if is_metric or any(key in run.metrics for run in runs):
            return _metric(key)
        return self._by_last_word(key)

    def _by_last_word(self, key: str) -> Callable[[RunValues], Value]:
        """`dim` for `model.dim`, `accuracy` for `eval/accuracy`, if there is just one."""
        settings = list(dict.fromkeys(name for run in self._runs for name in run.config))
        metrics = list(dict.fromkeys(name for run in self._runs for name in run.metrics))
        near = [*(_setting(name) for name in settings if _ends_in(name, key))]
        near += [_metric(name) for name in metrics if _ends_in(name, key)]
        if len(near) == 1:
            return near[0]
        names = [name for name in (*settings, *metrics) if _ends_in(name, key)]
        if names:
            raise BadQuery(f"{key!r} may be {' or '.join(map(repr, names[:5]))}; write one of them in full")
        names = list(dict.fromkeys((*FIELDS, *settings, *metrics)))
        hint = did_you_mean(key, names)
        raise BadQuery(f"no run has a setting or metric {key!r}; {hint}available: {some(names, 30)}")


def load(paths: Iterable[Path]) -> list[RunValues]:
    """The values of these runs."""
    return [RunValues(path, summarize(path, "", "", stamp_of(path))) for path in paths]


def matching(runs: Sequence[RunValues], where: str) -> list[RunValues]:
    """The runs that a query describes, in their order."""
    query, keys = Query(where), Keys(runs)
    keys.check(query.keys)
    return [run for run in runs if query(lambda key, run=run: keys.value(run, key))]  # type: ignore[misc]


def _setting(name: str) -> Callable[[RunValues], Value]:
    return lambda run: run.config.get(name)


def _metric(name: str) -> Callable[[RunValues], Value]:
    return lambda run: run.metric(name)


def _ends_in(name: str, word: str) -> bool:
    return name.endswith((f".{word}", f"/{word}"))
