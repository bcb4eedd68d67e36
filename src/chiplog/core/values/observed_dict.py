"""Dictionaries that report changes: the config and the summary of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from chiplog.core import messages
from chiplog.core.records import Plain

Changed = Callable[[Mapping[str, object]], None]


class ObservedDict(dict[str, Any]):
    """A dict that can also be read by attribute and reports every change. A copy or a pickle of it is a plain dict.

    A key that is removed is still stored: it says what the run began with.
    """

    def __init__(self, data: Mapping[str, object], changed: Changed) -> None:
        super().__init__(data)
        object.__setattr__(self, "_changed", changed)

    def __setitem__(self, key: str, value: object) -> None:
        self.update({key: value})

    def update(self, *args: object, **kwargs: object) -> None:
        """As `dict.update`, and from an argparse namespace. W&B's `allow_val_change=` is accepted and ignored."""
        kwargs.pop("allow_val_change", None)
        change = {**_mapping(args[0] if args else {}), **kwargs}
        super().update(change)
        self._changed(change)

    def setdefault(self, key: str, default: object = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        _report_removal("config", key)

    def pop(self, key: str, *default: Any) -> Any:
        removed = key in self
        value = super().pop(key, *default)
        if removed:
            _report_removal("config", key)
        return value

    def popitem(self) -> tuple[str, Any]:
        key, value = super().popitem()
        _report_removal("config", key)
        return key, value

    def clear(self) -> None:
        if self:
            _report_removal("config", next(iter(self)))
        super().clear()

    def __ior__(self, other: object) -> ObservedDict:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None

    def __setattr__(self, key: str, value: object) -> None:
        self[key] = value

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self),)


class Summary(MutableMapping[str, Plain]):
    """The last value of every series, and the values set by hand. Setting is cheap; the first read opens the run."""

    def __init__(self, by_hand: Mapping[str, Plain], read: Callable[[], Mapping[str, Plain]], changed: Changed) -> None:
        self._by_hand, self._read, self._changed = dict(by_hand), read, changed
        self._all: dict[str, Plain] | None = None

    def _values(self) -> dict[str, Plain]:
        if self._all is None:
            self._all = {**self._read(), **self._by_hand}
        return self._all

    def __getitem__(self, key: str) -> Plain:
        return self._by_hand[key] if key in self._by_hand else self._values()[key]

    def __setitem__(self, key: str, value: Plain) -> None:
        self._by_hand[key] = value
        self._all = None
        self._changed({key: value})

    def __delitem__(self, key: str) -> None:
        del self._values()[key]
        self._by_hand.pop(key, None)
        _report_removal("summary", key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __repr__(self) -> str:
        return repr(self._values())


def _report_removal(place: str, key: str) -> None:
    messages.once(
        f"removed from {place}",
        f"{key!r} was removed from run.{place} in this process only: a record cannot be removed, and what is stored "
        f"keeps it; to change that, set it to another value or to None",
    )


def _mapping(data: object) -> Mapping[str, object]:
    if isinstance(data, Mapping):
        return data
    if isinstance(data, Iterable):
        return dict(data)
    return dict(vars(data))
