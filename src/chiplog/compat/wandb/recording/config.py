"""The config of a run: by key or attribute, and a value that was set changes only with `allow_val_change`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from chiplog.compat.wandb import messages
from chiplog.core.values import convert

Changed = Callable[[Mapping[str, object]], None]


class Config:
    """W&B's config. Every change is passed on; a change that W&B would refuse is reported and refused."""

    def __init__(self, values: Mapping[str, object] | None = None, changed: Changed | None = None) -> None:
        object.__setattr__(self, "_items", dict(values or {}))
        object.__setattr__(self, "_changed", changed or (lambda _: None))

    def update(self, d: object = None, allow_val_change: bool | None = None, **more: object) -> None:
        """Add the values of a mapping, an argparse namespace, flags of absl, or a YAML file."""
        self._set({**parse(d), **more}, bool(allow_val_change))

    def setdefaults(self, d: object) -> None:
        """Add only what is not there yet."""
        self._set({key: value for key, value in parse(d).items() if key not in self._items}, True)

    def update_locked(self, d: object, *_: object, **__: object) -> None:
        self._set(parse(d), True)

    merge_locked = update_locked

    def _set(self, values: Mapping[str, object], change: bool) -> None:
        kept: dict[str, object] = {}
        try:
            for name, item in values.items():
                key, value = str(name).strip("-"), convert.plain(item)
                if key in self._items and not change and self._items[key] != value:
                    messages.once(
                        f"config {key}",
                        f"config {key!r} stays {self._items[key]!r} and is not changed to {value!r}, as in W&B; pass "
                        "config.update(..., allow_val_change=True)",
                    )
                else:
                    kept[key] = value
            self._items.update(kept)
            if kept:
                self._changed(kept)
        except Exception as error:
            messages.failed("wandb.config", error)

    def __setitem__(self, key: str, value: object) -> None:
        self._set({key: value}, False)

    __setattr__ = __setitem__

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __getattr__(self, key: str) -> Any:
        try:
            return object.__getattribute__(self, "_items")[key]
        except KeyError:
            raise AttributeError(f"config has no {key!r}") from None

    def get(self, key: str, default: object = None) -> Any:
        return self._items.get(key, default)

    def keys(self) -> list[str]:
        return [key for key in self._items if not key.startswith("_")]

    def values(self) -> list[Any]:
        return [self._items[key] for key in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        return [(key, self._items[key]) for key in self.keys()]

    def as_dict(self) -> dict[str, Any]:
        return dict(self.items())

    def persist(self) -> None:
        """Nothing to do: every change is stored when it is made."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __repr__(self) -> str:
        return repr(self.as_dict())

    def __reduce__(self) -> tuple[object, ...]:
        return Config, (self.as_dict(),)


def parse(values: Any) -> dict[str, object]:
    """A config as a dictionary, from whatever people pass; what cannot be read is reported."""
    if values is None:
        return {}
    if isinstance(values, Mapping | Config):
        return {str(key): value for key, value in values.items()}
    if isinstance(values, str | Path):
        return _file(Path(values))
    if hasattr(values, "flag_values_dict"):  # absl
        return dict(values.flag_values_dict())
    if hasattr(values, "__dict__"):
        return dict(vars(values))
    messages.once("config type", f"a config is a mapping, a namespace or a file, not {type(values).__name__}; ignored")
    return {}


def _file(path: Path) -> dict[str, object]:
    """The values of a YAML or JSON file; W&B's own files have `{value: ..., desc: ...}` for each key."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            import json

            loaded = json.loads(text)
        else:
            import yaml

            loaded = yaml.safe_load(text)
    except Exception as error:
        messages.failed(f"reading the config {str(path)!r}", error)
        return {}
    if not isinstance(loaded, dict):
        return {}
    return {
        str(key): value["value"] if isinstance(value, dict) and value.keys() <= {"value", "desc"} and value else value
        for key, value in loaded.items()
        if key != "wandb_version"
    }
