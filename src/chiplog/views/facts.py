"""What a run has recorded beside its steps, gathered in one pass over its parts and journals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from chiplog.core.records import Alert, AnyRecord, Eval, Event, Matrix, Spans, Step, Table, Text
from chiplog.store import layout, manifest
from chiplog.store.lines import Damage
from chiplog.store.reader import Stored, answer, part_of

if TYPE_CHECKING:
    from chiplog.store.parts import Part

T = TypeVar("T")


class Facts:
    """Evals, alerts, tables, texts and matrices in the order they came; the config, the environment and the damage."""

    def __init__(self, stored: Stored) -> None:
        about = manifest.load(stored.path)
        self.config: dict[str, Any] = dict(about.config)
        self.environment: dict[str, Any] = dict(about.environment)
        self.damage: list[Damage] = []
        self._records: list[AnyRecord] = []
        segments = sorted(layout.segments(stored.path), key=lambda one: (one.attempt, one.rank, one.number))
        running = stored.state == "running"
        for segment in segments:
            known, scanner = answer(stored.path, segment, part_of(stored.path, segment), _known)
            for damage, rows in known:
                self.damage += [Damage(segment.filename, *one) for one in damage]
                self._records += rows
            fresh = [record for record in scanner.read() if not isinstance(record, (Step, Spans))]
            self._records += sorted(fresh, key=lambda record: record.seq)
            self.damage += scanner.damage
            if not running and (torn := scanner.torn()) is not None:
                self.damage.append(torn)
        for event in self._of(Event):
            if event.name == "config":
                self.config.update(event.data)
            elif event.name == "environment":
                self.environment = event.data
        self.evals = self._of(Eval)
        self.alerts = self._of(Alert)
        self.tables = self._of(Table)
        self.texts = self._of(Text)
        self.matrices: dict[str, list[Matrix]] = {}
        for matrix in self._of(Matrix):
            self.matrices.setdefault(matrix.name, []).append(matrix)

    def _of(self, kind: type[T]) -> list[T]:
        return [record for record in self._records if isinstance(record, kind)]


def _known(part: Part) -> Iterable[tuple[list[Any], list[AnyRecord]]]:
    return [(list(part.about.damage), list(part.rows()))]
