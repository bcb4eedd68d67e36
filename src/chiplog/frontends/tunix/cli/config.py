"""The config of a job: YAML files and `key=value`, as on the command line of Tunix.

>>> python train.py grpo.yaml rl_training_config.perf_metrics_options.enable_perf_v2=true
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chiplog.core.errors import BadSetting
from chiplog.frontends.tunix.perf.metrics import PerfMetricsOptions, read_yaml

SUFFIXES = (".yaml", ".yml")


class HyperParameters:
    """A config as nested mappings, with its options of performance tracing."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.perf_metrics_options = PerfMetricsOptions.from_document(self.config)

    @property
    def rl_training_config(self) -> dict[str, Any]:
        """The arguments of an `RLTrainingConfig`."""
        section = dict(self.config.get("rl_training_config") or {})
        return {**section, "perf_metrics_options": self.perf_metrics_options}


def initialize(argv: Sequence[str] | None = None, **more: object) -> HyperParameters:
    """Return the config of these arguments, by default those of the command line.

    An argument is the path of a YAML file, or `a.b.c=value` with a value in YAML; anything else is an error. Later
    arguments override earlier ones, and `more` overrides all.
    """
    config: dict[str, Any] = {}
    for word in sys.argv[1:] if argv is None else argv:
        key, equals, value = word.partition("=")
        if equals:
            _merge(config, _nested(key, read_yaml(value) if value else "", word))
        elif word.endswith(SUFFIXES):
            _merge(config, _file(word))
        elif not word.endswith(".py"):  # the program's own name
            raise BadSetting(f"{word!r} is neither a YAML file nor key=value, as in rl_training_config.max_steps=100")
    _merge(config, more)
    return HyperParameters(config)


def _file(path: str) -> dict[str, Any]:
    try:
        document = read_yaml(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSetting(f"the config {path!r} cannot be read: {error.strerror}") from None
    if not isinstance(document, dict):
        raise BadSetting(f"the config {path!r} is not a mapping, but {document!r:.100}")
    return document


def _nested(key: str, value: object, word: str) -> dict[str, Any]:
    *outer, last = key.removeprefix("--").split(".")
    nested = {last: value}
    for part in reversed(outer):
        nested = {part: nested}
    if not all((*outer, last)):
        raise BadSetting(f"{word!r}: a key consists of names with dots between them, as in a.b=1")
    return nested


def _merge(config: dict[str, Any], other: Mapping[str, object]) -> None:
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), dict):
            _merge(config[key], value)
        else:
            config[key] = dict(value) if isinstance(value, Mapping) else value
