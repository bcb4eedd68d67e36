"""Backends in the shapes people have: each is given what it asks for, once, and can be made by a class or a function."""

from __future__ import annotations

import copy
import functools
import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core import records, settings
from chiplog.core.errors import BadSetting, Rejected, UnknownSink
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Step
from chiplog.sinks import registry
from chiplog.sinks.adapters import backends
from chiplog.sinks.delivery import courier as delivery
from chiplog.sinks.delivery import retries
from chiplog.store.layout import Segment

PNG = b"\x89PNG\r\n\x1a\n"
IDENTITY = Identity("p", "r", Path("runs"), "r", "launch")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "POLL", 0.01)
    monkeypatch.setattr(retries, "BACK_OFF", (0.01, 0.05))
    monkeypatch.setattr(registry, "_registered", {})


class Logger:
    """A metrics logger: no base class, a number a call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float, dict[str, Any]]] = []
        self.closed = 0

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        self.calls.append((event, value, kwargs))

    def close(self) -> None:
        self.closed += 1


class Backend(chiplog.TrackerBackend):
    """A tracker backend with everything."""

    name = "my_backend"

    def __init__(self, **kwargs: Any) -> None:
        self.kwargs = kwargs
        self.calls: list[tuple[Any, ...]] = []

    def log(self, metrics: Mapping[str, Any], step: Any = None, commit: bool = True) -> None:
        self.calls.append(("log", dict(metrics), step, commit))

    def log_config(self, config: Mapping[str, Any]) -> None:
        self.calls.append(("config", dict(config)))

    def finish(self) -> None:
        self.calls.append(("finish",))

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[Any]]) -> None:
        self.calls.append(("table", key, columns, data))

    def log_image(self, key: str, image_path: str, caption: str | None = None) -> None:
        self.calls.append(("image", key, Path(image_path).read_bytes(), caption))

    def log_artifacts(self, artifacts: Mapping[str, str]) -> None:
        self.calls.append(("artifacts", {key: Path(path).read_text() for key, path in artifacts.items()}))

    def watch(self, model: Any, **options: Any) -> None:
        self.calls.append(("watch", model, options))


class Plain:
    """A tracker backend that inherits nothing and has only what it must."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def log(self, metrics: Mapping[str, Any], step: Any = None, commit: bool = True) -> None:
        self.rows.append((metrics, step))

    def log_config(self, config: Mapping[str, Any]) -> None: ...

    def finish(self) -> None: ...


def begin(sinks: Any, **more: Any) -> chiplog.Run:
    return chiplog.init("p", sinks=sinks, alerts=False, **more)


def test_a_metrics_logger_gets_every_number_with_its_step() -> None:
    """`log_scalar(name, value, step=step)`; what has no step of its own gets the newest; closed once."""
    run = begin(Logger)
    run.log({"train/loss": 2.5, "lr": 0.1}, step=7)
    run.eval({"loss": 3.0}, step=7)
    run.event("gpu", id=0, power=300)
    run.log({"train/loss": float("nan"), "big": 10**400}, step=5)
    assert run.finish()
    logger: Any = run.sink("logger")
    assert logger.calls[:4] == [
        ("train/loss", 2.5, {"step": 7}),
        ("lr", 0.1, {"step": 7}),
        ("eval/loss", 3.0, {"step": 7}),
        ("gpu/0/power", 300, {"step": 7}),
    ]
    assert [str(value) for _, value, at in logger.calls[4:] if at == {"step": 5}] == ["nan", "inf"]
    assert logger.closed == 1


@pytest.mark.parametrize("kind", ["Logger", "Backend", "Writer"])
def test_spans_do_not_disturb_a_backend(kind: str) -> None:
    """They have many steps, and nothing for it; what comes behind them arrives."""
    run = begin(globals()[kind])
    with run.span("x"):
        pass
    run.write_spans()
    run.log({"loss": 2.5}, step=1)
    assert run.finish()
    assert "2.5" in str(run.sink("my_backend" if kind == "Backend" else kind.lower()).calls)  # type: ignore[attr-defined]


def test_a_tracker_backend_gets_rows_config_tables_images_and_files(tmp_path: Path) -> None:
    """Each by its method, in the order in which they were logged, with `finish` last."""
    run = begin([Backend], config={"lr": 0.1, "model": {"layers": 2}}, dir=tmp_path)
    note = tmp_path / "note.txt"
    note.write_text("hello")
    run.log({"loss": 2.5}, step=1)
    run.log({"picture": chiplog.Image(PNG, caption="a dog")}, step=1)
    run.table("samples", [{"a": 1}, {"a": 2, "b": "x"}])
    run.artifact(note)
    run.event("gpu", id=0, power=300)
    assert run.finish()
    backend: Any = run.sink("my_backend")
    calls = backend.calls
    assert calls[0] == ("config", {"lr": 0.1, "model": {"layers": 2}})
    assert calls[-1] == ("finish",) and calls.count(("finish",)) == 1
    assert ("log", {"loss": 2.5}, 1, True) in calls
    assert ("image", "picture", PNG, "a dog") in calls
    assert ("table", "samples", ["a", "b"], [[1, None], [2, "x"]]) in calls
    assert ("artifacts", {"note.txt": "hello"}) in calls
    assert ("log", {"gpu/0/power": 300}, 1, True) in calls
    assert backend.kwargs["project_name"] == "p" and backend.kwargs["rank"] == 0
    assert backend.kwargs["outdir"] == str(run.dir / "files") and backend.kwargs["config"]["lr"] == 0.1
    backend.watch("model", log="all")
    assert calls[-1] == ("watch", "model", {"log": "all"})


def test_a_backend_needs_no_base_class_and_no_optional_methods() -> None:
    """Tables and pictures are then nothing to it."""
    plain = Plain()
    run = begin(plain)
    run.table("t", [{"a": 1}])
    run.log({"picture": chiplog.Image(PNG), "x": 1.0}, step=2)
    assert run.finish()
    assert plain.rows == [({"x": 1.0}, 2)]
    assert run.sink("plain") is plain


def test_the_base_class_does_nothing_by_itself() -> None:
    """So that a subclass writes only what it wants."""

    class Least(chiplog.TrackerBackend):
        def log(self, metrics: Any, step: Any = None, commit: bool = True) -> None: ...
        def log_config(self, config: Any) -> None: ...
        def finish(self) -> None: ...

    run = begin(Least())
    run.table("t", [{"a": 1}])
    run.log({"picture": chiplog.Image(PNG)})
    assert run.finish()
    with pytest.raises(TypeError):
        chiplog.TrackerBackend()  # type: ignore[abstract]


class Writer:
    """The interface of a CLU metric writer."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
        self.calls.append(("scalars", step, dict(scalars)))

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        raise NotImplementedError

    def write_histograms(self, step: int, arrays: Mapping[str, Any], num_buckets: Any = None) -> None:
        self.calls.append(("histograms", step, {k: v.tolist() for k, v in arrays.items()}, num_buckets))

    def write_images(self, step: int, images: Mapping[str, Any]) -> None:
        self.calls.append(("images", step, {k: v.shape for k, v in images.items()}))

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        self.calls.append(("hparams", dict(hparams)))

    def flush(self) -> None:
        self.calls.append(("flush",))

    def close(self) -> None:
        self.calls.append(("close",))


def test_a_metric_writer_gets_each_kind_by_its_method() -> None:
    """Scalars, histograms, pictures, the config once; what it does not implement is left out."""
    numpy = pytest.importorskip("numpy")
    run = begin(Writer, config={"lr": 0.1, "model": {"layers": [1, 2]}})
    run.log({"loss": 2.5, "sample": chiplog.Text("hello")}, step=3)
    run.log({"grads": chiplog.Histogram(counts=[1, 2], edges=[0, 1, 2])}, step=3)
    run.log({"picture": chiplog.Image(numpy.zeros((4, 5, 3), "uint8"))}, step=3)
    assert run.finish()
    writer: Any = run.sink("writer")
    wanted = [
        ("hparams", {"lr": 0.1, "model.layers": "[1, 2]"}),
        ("scalars", 3, {"loss": 2.5}),
        ("histograms", 3, {"grads": [0.5, 1.5, 1.5]}, {"grads": 2}),
        ("images", 3, {"picture": (4, 5, 3)}),
    ]
    assert [call for call in writer.calls if call[0] not in ("flush", "close")] == wanted
    assert ("flush",) in writer.calls and writer.calls[-1] == ("close",)


def test_a_registered_backend_answers_to_its_name() -> None:
    """With options, and from names in a text too."""
    chiplog.register_backend("mine", Backend)
    chiplog.register_backend("other", Logger)
    run = begin({"mine": {"path": "x"}, "other": {}})
    run.log({"x": 1.0}, step=0)
    assert run.finish()
    assert run.sink("mine").kwargs["path"] == "x"  # type: ignore[attr-defined]
    assert [call[0] for call in run.sink("other").calls] == ["x"]  # type: ignore[attr-defined]
    run = begin("mine,memory")
    assert run.finish() and run.sink("mine").calls[-1] == ("finish",)  # type: ignore[attr-defined]
    with pytest.raises(UnknownSink, match="mine, other"):
        begin("thine")


@pytest.mark.parametrize(
    ("name", "backend"), [("csv", Backend), ("none", Backend), ("a,b", Backend), ("", Backend), ("x", 5)]
)
def test_what_cannot_be_registered_is_refused(name: str, backend: Any) -> None:
    """A name of ours stays ours."""
    with pytest.raises(BadSetting):
        chiplog.register_backend(name, backend)


def test_other_packages_offer_backends_in_any_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point is a function of identity and environment, or a backend's class."""
    about = tmp_path / "kites-1.dist-info"
    about.mkdir()
    (tmp_path / "kites.py").write_text(
        "class Kite:\n"
        "    def __init__(self, colour='red'): self.colour, self.seen = colour, []\n"
        "    def log_scalar(self, event, value, **kwargs): self.seen.append(event)\n"
        "    def close(self): pass\n"
        "def open_sink(identity, environ, colour='blue'): return Kite(colour + identity.project)\n"
    )
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kites\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[chiplog.sinks]\nkite = kites:Kite\ndragon = kites:open_sink\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    run = begin({"kite": {"colour": "green"}, "dragon": {}})
    run.log({"x": 1.0})
    assert run.finish()
    monkeypatch.delitem(sys.modules, "kites")
    assert [(run.sink(name).colour, run.sink(name).seen) for name in ("kite", "dragon")] == [  # type: ignore[attr-defined]
        ("green", ["x"]),
        ("bluep", ["x"]),
    ]


def test_options_hold_factories_and_can_be_copied_and_pickled() -> None:
    """Each run made from a copy has backends of its own."""
    sinks: list[Any] = [Logger, functools.partial(Backend, path="x")]
    chosen = settings.load({"sinks": {"mine": {"path": "x"}}}, {}, Path())
    for copied in (copy.deepcopy((sinks, chosen)), pickle.loads(pickle.dumps((sinks, chosen)))):
        assert copied[1] == chosen
        run = begin(copied[0])
        run.log({"x": 1.0}, step=0)
        assert run.finish()
        assert run.sink("logger").calls == [("x", 1.0, {"step": 0})]  # type: ignore[attr-defined]
        assert run.sink("my_backend").kwargs["path"] == "x"  # type: ignore[attr-defined]


def test_no_call_is_made_twice_when_one_fails() -> None:
    """The next try goes on with the call that failed, also in the middle of a row."""

    class Moody(Logger):
        def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
            if len(self.calls) in (3, 8) and not self.calls[-1][0].startswith("mood"):
                self.calls.append(("mood", 0, {}))
                raise ConnectionError("not now")
            super().log_scalar(event, value, **kwargs)

    run = begin(Moody)
    for step in range(5):
        run.log({"a": step, "b": step}, step=step)
    assert run.finish()
    calls = [call for call in run.sink("moody").calls if call[0] != "mood"]  # type: ignore[attr-defined]
    assert calls == [(name, step, {"step": step}) for step in range(5) for name in "ab"]
    assert run.health()["sinks"]["moody"]["errors"] == 2


def test_a_record_that_a_backend_rejects_is_left_out() -> None:
    """Others are given once, before and behind it, also when one of them fails for a moment."""

    class Picky(Logger):
        moody = True

        def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
            if (event, value) == ("b", 3):
                raise Rejected("three")
            if (event, value) == ("b", 6) and self.moody:
                self.moody = False
                raise ConnectionError("not now")
            super().log_scalar(event, value)

    picky = Picky()
    courier = delivery.Courier("picky", backends.wrap(picky, IDENTITY), Path(), Segment(0, 1, 0))
    batch: list[AnyRecord] = [Step(seq, 0, seq, {"a": seq, "b": seq}) for seq in range(8)]
    courier.writer.write(courier.sink, batch, ["r0-a1"] * len(batch))
    assert courier.health()["skipped"] == 1 and courier.health()["last_error"] == "three"
    wanted = [(name, seq) for seq in range(8) for name in "ab" if (name, seq) != ("b", 3)]
    assert [call[:2] for call in picky.calls] == wanted


def test_records_of_one_batch_may_come_in_any_order_of_seq() -> None:
    """Threads that log at once may overtake each other; nothing is left out for it."""
    logger = Logger()
    sink = backends.wrap(logger, IDENTITY)
    sink.write([Step(2, 0, 2, {"a": 2}), Step(1, 0, 1, {"a": 1}), records.Unknown("new", 3, 0, {})])
    sink.write([Step(0, 0, 0, {"a": 0})])
    assert [value for _, value, _ in logger.calls] == [2, 1, 0]


@pytest.mark.parametrize("kind", ["log_scalar", "write"])
def test_a_backend_that_raises_once_is_reported_and_has_everything(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says so, though the next try succeeds."""
    values: list[float] = []
    raised: list[str] = []

    def fail_once() -> None:
        if not raised:
            raised.append("")
            raise ConnectionError("the line was cut")

    class Scalars:
        def log_scalar(self, event: str, value: float, **_: Any) -> None:
            fail_once()
            values.append(value)

        def close(self) -> None: ...

    class Batches:
        def write(self, batch: Sequence[AnyRecord]) -> None:
            fail_once()
            values.extend(value for one in batch if isinstance(one, Step) for value in one.metrics.values())

        def close(self) -> None: ...

    with chiplog.init("p", sinks={"mine": Scalars() if kind == "log_scalar" else Batches()}, dir=tmp_path) as run:
        for step in range(3):
            run.log({"x": float(step)}, step=step)
    assert values == [0.0, 1.0, 2.0]
    assert capsys.readouterr().err.count("sink 'mine' raised ConnectionError: the line was cut; it was retried") == 1
