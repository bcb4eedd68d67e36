"""The config of a job: YAML files, and `key=value` after them, as the command line of the original has them.

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
    """A config as nested mappings, with the options of performance tracing that are in it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.perf_metrics_options = PerfMetricsOptions.from_document(self.config)

    @property
    def rl_training_config(self) -> dict[str, Any]:
        """The arguments of an `RLTrainingConfig`."""
        section = dict(self.config.get("rl_training_config") or {})
        return {**section, "perf_metrics_options": self.perf_metrics_options}


def initialize(argv: Sequence[str] | None = None, **more: Any) -> HyperParameters:
    """The config of these words, or of the command line: later ones override earlier ones, `more` all of them.

    A word is the path of a YAML file, or `a.b.c=value` with a value as YAML has it. Anything else is an error here.
    """
    config: dict[str, Any] = {}
    for word in sys.argv[1:] if argv is None else argv:
        key, equals, value = word.partition("=")
        if equals:
            _merge(config, _nested(key, read_yaml(value) if value else "", word))
        elif word.endswith(SUFFIXES):
            _merge(config, _file(word))
        elif not word.endswith(".py"):  # of a command line with the program's own name
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


def _nested(key: str, value: Any, word: str) -> dict[str, Any]:
    for part in reversed(key.removeprefix("--").split(".")):
        if not part:
            raise BadSetting(f"{word!r}: a key has names with dots between them, as in a.b=1")
        value = {part: value}
    found: dict[str, Any] = value
    return found


def _merge(config: dict[str, Any], other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), dict):
            _merge(config[key], value)
        else:
            config[key] = dict(value) if isinstance(value, Mapping) else value
