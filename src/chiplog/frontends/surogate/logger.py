"""`TrainingRunLogger`: Surogate's calls, as records of a run."""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO, TypeVar

from chiplog import assembly
from chiplog.core import notes
from chiplog.core.records import Record
from chiplog.core.run import Run
from chiplog.core.texts import words
from chiplog.frontends.surogate import arguments, fields
from chiplog.frontends.surogate.console import LogVerbosity, layout
from chiplog.metrics import allocator, sol
from chiplog.metrics.moe import DOCUMENTED, FIELDS
from chiplog.sinks.console import Console
from chiplog.sinks.json import Json
from chiplog.store.layout import slug

PROJECT = "surogate"
WIDEST = 1 << 16  # characters: its lines are never cut
_SHORT = {"utilization": "expert_utilization", "imbalance": "load_imbalance"}  # as the documented call has them
OF_A_STEP = 7  # numbers that every step has: itself, epoch, tokens, milliseconds, norm, loss, learning rate


Method = TypeVar("Method", bound=Callable[..., None])


def harmless(method: Method) -> Method:
    """A call that never raises into the training: what is wrong with it is said once."""

    @wraps(method)
    def call(self: TrainingRunLogger, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            why = words(error)
            notes.once(f"{method.__name__} {self.run.id} {why}", f"{method.__name__}: {why}; training goes on")

    return call  # type: ignore[return-value]


class TrainingRunLogger:
    """Logs a run to a JSON array file, the console and a callback, by Surogate's calls.

    The file is continued where it is there already: the same path is the same run. It is behind by a quarter of a
    second at most; `flush`, `close`, the end of the program and that of the object complete it. The callback gets each
    line of the file at once, on the thread that logs; whatever it raises is reported and goes no further.
    """

    def __init__(
        self,
        file_name: str | Path,
        callback: Callable[[str], object] | None = None,
        verbosity: int = LogVerbosity.DEFAULT,
        *,
        sinks: Mapping[str, Any] | None = None,
        stream: TextIO | None = None,
        **settings: Any,
    ) -> None:
        path = Path(file_name).expanduser().absolute()
        here: dict[str, Any] = {"log": Json(path, fields.lines)}
        if verbosity > LogVerbosity.SILENT:
            shown = stream if stream is not None else sys.stdout
            here["console"] = Console(
                shown, environ=dict(os.environ), width=WIDEST, layout=layout(verbosity), rate=None
            )
        self._callback = callback
        self._ns_per_token: float | None = None
        self._moe: dict[str, Any] = {}
        self._section = 0.0
        self.run = assembly.beside(
            **{"project": PROJECT, "id": _id(path), "sinks": {**here, **(sinks or {})}, **settings}
        )
        if callback is not None:
            self.run.on_record(_caller(callback))
        self._ending = weakref.finalize(self, Run.finish, self.run)
        self._ending.atexit = False  # the run itself sees to that

    # -- at the start ------------------------------------------------------------------------------------------------

    @harmless
    def log_cmd(self, args: Iterable[str]) -> None:
        self.run.event("cmd", cmd=[str(arg) for arg in args])

    def log_options(self, options: Mapping[str, bool | int | float | str]) -> None:
        """The options of the run, which are its config too; raises TypeError for one that is no plain value."""
        for name, value in options.items():
            if not isinstance(value, (bool, int, float, str)):
                raise TypeError(f"Unsupported option type for key: {name} ({type(value).__name__})")
        self.run.config.update(options)

    @harmless
    def log_dataset(self, train_loader: Any, eval_loader: Any = None) -> None:
        """The splits: mappings or objects with `files` (a number, names, or tokens by name), `tokens`, `file_index`,
        `chunk_index` and `seed`."""
        for split, loader in (("train", train_loader), ("eval", eval_loader)):
            if loader is not None:
                self.run.event("dataset", split=split, **arguments.dataset(loader))

    @harmless
    def log_gpu_model(self, gpu: Mapping[str, Any] | Any = None, *, rank: int = 0, **more: Any) -> None:
        """A GPU as it was found: any of the documented fields, in a mapping, on an object, or by keyword."""
        about = {name: value for name in fields.GPU_MODEL if (value := arguments.get(gpu, name)) is not None}
        self.run.event("gpu-model", **{"id": rank, **about, **more}, rank=rank)

    @harmless
    def log_allocator(self, stats: Mapping[str, Mapping[str, Any]] | Iterable[Mapping[str, Any]]) -> None:
        """Memory by segment: `{"weights": {"device": bytes, "managed": 0, "pinned": 0, "pageable": 0}}`."""
        self.run.event("allocator", **allocator.report(stats))

    @harmless
    def log_sol_estimate(
        self,
        blocks: float,
        lm_head: float,
        attention: float,
        *,
        device: str | None = None,
        peaks: Mapping[str, float | None] | None = None,
        dtype: str | Mapping[str, str] = "bf16",
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """The speed of light: FLOPs a token of each part, in one dtype or each in its own, on devices of this name.

        `peaks`, in TFLOP/s by dtype, go over those that are known of the device. From now on every step has its `sol`.
        """
        each = {name: dtype if isinstance(dtype, str) else dtype.get(name, "bf16") for name in sol.PARTS}
        parts = {
            name: sol.Part(flops, each[name])
            for name, flops in zip(sol.PARTS, (blocks, lm_head, attention), strict=True)
        }
        found = sol.estimate(parts, sol.peaks_of(device, peaks), devices=world_size, whole=True)
        self._ns_per_token = found.ns_per_token
        self.run.event("sol", **found.data(), rank=rank)

    @harmless
    def set_expected_time_per_token(self, expected: Any, **options: Any) -> None:
        """Nanoseconds a token, or a trainer whose `config` (that of a dense transformer) says how much work one is."""
        if isinstance(expected, (int, float)):
            self._ns_per_token = expected or None
            return
        parts = arguments.work(expected)
        self.log_sol_estimate(*(part.flops for part in parts.values()), **options)

    @harmless
    def set_training_tokens(self, tokens: int) -> None:
        """How many tokens there are to train with from now on; every step then says how long it takes."""
        self.run.event("plan", tokens=int(tokens))

    # -- while it trains ---------------------------------------------------------------------------------------------

    @harmless
    def log_step(
        self,
        step: int,
        epoch: float,
        step_tokens: int,
        duration_ms: int,
        norm: float,
        loss: float,
        lr: float,
        **more: float,
    ) -> None:
        """One step. By keyword, what else there is of it: `kd_loss`, `moe_aux_loss`, `moe_z_loss`, `moe_load_imbalance`
        and the other `moe_…`."""
        tokens, took = arguments.number(step_tokens), arguments.number(duration_ms)
        row = {
            "epoch": epoch,
            "step_tokens": tokens,
            "duration_ms": took,
            "norm": norm,
            "loss": loss,
            "lr": lr,
            "tokens_per_second": sol.rate(tokens, took),
            "sol": sol.share_in_ms(self._ns_per_token, tokens, took),
            **more,
        }
        known = {f"train/{name}": arguments.number(value) for name, value in row.items() if value is not None}
        self.run.log(known, step=step)
        moe = {name[4:]: value for name, value in more.items() if name.startswith("moe_") and value is not None}
        self._moe = moe or self._moe

    @harmless
    def log_step_kd(self, *row: Any, **named: Any) -> None:
        """One step of a distillation: what `log_step` takes, then `kd_loss`."""
        self.log_step(*row[:OF_A_STEP], **{**_behind(row, ("kd_loss",)), **named})

    @harmless
    def log_step_moe(self, *row: Any, **named: Any) -> None:
        """One step of a mixture of experts: what `log_step` takes, then three numbers of its routers, or all ten:
        `moe_aux_loss`, `moe_z_loss`, `moe_load_imbalance`, `moe_expert_utilization`, …"""
        known = _behind(row, [f"moe_{name}" for name in fields.MOE_STEP]) | named
        self.log_step(*row[:OF_A_STEP], **{name: value for name, value in known.items() if value is not None})

    @harmless
    def log_eval(self, step: int, epoch: float, eval_tokens: int, duration_ms: int, loss: float) -> None:
        tokens, took = arguments.number(eval_tokens), arguments.number(duration_ms)
        row = {
            "epoch": epoch,
            "eval_tokens": tokens,
            "duration_ms": took,
            "loss": loss,
            "tokens_per_second": sol.rate(tokens, took),
        }
        known = {name: arguments.number(value) for name, value in row.items() if value is not None}
        self.run.eval(known, step=step)

    @harmless
    def log_moe_stats(self, step: int, *stats: float, **named: float) -> None:
        """The routers at a step: aux loss, z-loss, utilisation and imbalance; with seven more, or any by name."""
        if len(stats) > len(FIELDS):
            raise TypeError(f"there are {len(FIELDS)} numbers of a router, not {len(stats)}: {', '.join(FIELDS)}")
        self._moe = {**dict(zip(FIELDS, stats, strict=False)), **{_SHORT.get(key, key): named[key] for key in named}}
        self.run.event("moe", step=step, **{name: arguments.number(value) for name, value in self._moe.items()})

    def get_moe_stats(self, full: bool = False) -> dict[str, Any]:
        """The routers as they were logged last, and whether there are any: zeros and `valid` False for a dense model.

        The four that are documented, or with `full` all ten.
        """
        return moe_stats(self._moe, full)

    @harmless
    def log_gpu_state(self, step: int, gpu_id: int, gpu_util: Any) -> None:
        """A GPU at a step: a `GPUUtilInfo`, or anything with its fields or those of the table."""
        self.run.event("gpu", step=step, **{"id": gpu_id, **arguments.gpu(gpu_util)})

    @harmless
    def log_abs_maxes(self, step: int, abs_maxes: Mapping[str, float]) -> None:
        """The largest absolute value of each tensor."""
        listed = [{"name": name, "value": value} for name, value in abs_maxes.items()]
        self.run.event("abs-maxes", step=step, abs_maxes=listed)

    @harmless
    def log_message(self, step: int, msg: str) -> None:
        self.run.event("info", step=step, message=str(msg))

    @harmless
    def log_section_start(self, step: int, info: str) -> None:
        """Something that takes a while; `log_section_end` says how long it took."""
        self._section = time.monotonic()
        self.run.event("section", step=step, info=str(info))

    @harmless
    def log_section_end(self, step: int, info: str = "") -> None:
        took = int((time.monotonic() - self._section) * 1000)
        self.run.event("info", step=step, message=str(info), duration_ms=took)

    @harmless
    def set_phase(self, phase: str) -> None:
        """What later steps are said to be: `converging`, …; empty: nothing."""
        self.run.event("phase", phase=str(phase or ""))

    # -- the end -----------------------------------------------------------------------------------------------------

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until file and console have everything."""
        post = self.run.post
        return self.run.flush() and (post is None or post.settle(timeout))

    def close(self) -> None:
        self.run.finish()

    def __enter__(self) -> TrainingRunLogger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.run.__exit__(kind, error, None)


def moe_stats(known: Mapping[str, Any], full: bool = False) -> dict[str, Any]:
    """What `get_moe_stats` returns for these numbers, as far as they are known."""
    return {**{name: known.get(name, 0.0) for name in (FIELDS if full else DOCUMENTED)}, "valid": bool(known)}


def _behind(row: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """What stands behind the numbers that every step has, by name."""
    more = row[OF_A_STEP:]
    if len(more) > len(names):
        raise TypeError(f"a step has {OF_A_STEP} numbers, then at most {', '.join(names)}; here are {len(row)}")
    return dict(zip(names, more, strict=False))


def _id(path: Path) -> str:
    """The run of a log file: the same path goes on with the same run."""
    return f"{slug(path.stem)[:48]}-{sha256(str(path).encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _caller(callback: Callable[[str], object]) -> Callable[[Record], None]:
    notes: dict[str, Any] = {}

    def call(record: Record) -> None:
        for line in fields.lines(record, notes):  # type: ignore[arg-type]
            callback(line.decode())

    return call
