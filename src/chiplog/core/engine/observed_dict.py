"""Dictionaries that report changes: the config and the summary of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

Changed = Callable[[Mapping[str, Any]], None]


class ObservedDict(dict[str, Any]):
    """Reads as a dict, also by attribute; every change is passed on. A copy or a pickle of it is a plain dict."""

    def __init__(self, data: Mapping[str, Any], changed: Changed) -> None:
        super().__init__(data)
        object.__setattr__(self, "_changed", changed)

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As of a dict; also from an argparse namespace. `allow_val_change=` is taken from those who are used to it."""
        kwargs.pop("allow_val_change", None)
        change = {**_mapping(args[0] if args else {}), **kwargs}
        super().update(change)
        self._changed(change)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> ObservedDict:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class Summary(MutableMapping[str, Any]):
    """The last value of every series and what was set by hand. Setting is cheap; the first look reads the journal."""

    def __init__(self, by_hand: Mapping[str, Any], read: Callable[[], Mapping[str, Any]], changed: Changed) -> None:
        self._by_hand, self._read, self._changed = dict(by_hand), read, changed
        self._all: dict[str, Any] | None = None

    def _look(self) -> dict[str, Any]:
        if self._all is None:
            self._all = {**self._read(), **self._by_hand}
        return self._all

    def __getitem__(self, key: str) -> Any:
        return self._by_hand[key] if key in self._by_hand else self._look()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._by_hand[key] = value
        self._all = None
        self._changed({key: value})

    def __delitem__(self, key: str) -> None:
        del self._by_hand[key]
        self._all = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._look())

    def __len__(self) -> int:
        return len(self._look())

    def __repr__(self) -> str:
        return repr(self._look())


def _mapping(data: Any) -> Mapping[str, Any]:
    if isinstance(data, Mapping):
        return data
    if isinstance(data, Iterable):
        return dict(data)
    return dict(vars(data))
