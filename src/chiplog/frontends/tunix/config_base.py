"""What the configs of trainers and clusters share: the original's defaults, and any others beside them."""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar


class _Fields:
    """The settings as `dataclasses.replace`, `fields` and `asdict` ask for them; of a config, all it has."""

    def __get__(self, config: Config | None, kind: type[Config]) -> dict[str, dataclasses.Field[Any]]:
        names = kind.DEFAULTS if config is None else vars(config)
        usable = [name for name in names if name.isidentifier() and not keyword.iskeyword(name)]
        return {field.name: field for field in dataclasses.fields(dataclasses.make_dataclass("Settings", usable))}


class Config(SimpleNamespace):
    """Settings as attributes. One that was not given has the original's default; others are kept as they are."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {}
    __dataclass_fields__ = _Fields()

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**self.DEFAULTS, **given})

    def get_with_default(self, key: str, default: Any) -> Any:
        """A setting, or something else where it is None."""
        value = getattr(self, key)
        return default if value is None else value
