"""The common part of the configs of trainers and clusters: Tunix's defaults, and any other settings."""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar


class _Fields:
    """The settings in the form in which `dataclasses.replace`, `fields` and `asdict` read them."""

    def __get__(self, config: Config | None, kind: type[Config]) -> dict[str, dataclasses.Field[object]]:
        names = kind.DEFAULTS if config is None else vars(config)
        usable = [name for name in names if name.isidentifier() and not keyword.iskeyword(name)]
        return {field.name: field for field in dataclasses.fields(dataclasses.make_dataclass("Settings", usable))}


class Config(SimpleNamespace):
    """Settings as attributes, with Tunix's defaults; settings that mean nothing here are kept."""

    DEFAULTS: ClassVar[Mapping[str, object]] = {}
    __dataclass_fields__ = _Fields()

    def __init__(self, **settings: object) -> None:
        super().__init__(**{**self.DEFAULTS, **settings})

    def get_with_default(self, key: str, default: Any) -> Any:
        """Return a setting, or the default if it is None."""
        value = getattr(self, key)
        return default if value is None else value
