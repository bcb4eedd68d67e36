"""`TrainingRunLogger`: Surogate's calls, as records of a run."""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from chiplog import assembly
from chiplog.core import messages as notes
from chiplog.core.records import AnyRecord, Record, Text
from chiplog.core.run import Run
from chiplog.core.values import convert
from chiplog.core.values.redact import redact_text
from chiplog.frontends.surogate import allocator, identity, parsing, schema
from chiplog.frontends.surogate.calls import Report, Unusable, harmless, reporter, shown
from chiplog.frontends.surogate.console import LogVerbosity, layout
from chiplog.frontends.surogate.log_file import LogFile, usable
from chiplog.frontends.surogate.moe_stats import moe_stats
from chiplog.metrics import speed_of_light
from chiplog.metrics.moe import FIELDS
from chiplog.sinks.console.sink import Console

START = 1.0  # s for the file to be there when the logger is made
WIDEST = 1 << 16  # characters: its lines are never cut
_SHORT = {"utilization": "expert_utilization", "imbalance": "load_imbalance"}  # as the documented call has them
OF_A_STEP = 7  # numbers that every step has: itself, epoch, tokens, milliseconds, norm, loss, learning rate


class TrainingRunLogger:
    """Logs a run to a JSON array file, the console and a callback, by Surogate's calls.

    Every logger is a run of its own, and a file of an earlier one is put aside; `resume=True` goes on with the last run
    of this file, if there is one. A record is in the file when its call returns. The callback gets each line of it too,
    on the thread that logs; whatever it raises is reported and goes no further.
    """

    def __init__(
        self,
        file_name: str | Path,
        callback: Callable[[str], object] | None = None,
        verbosity: int = LogVerbosity.DEFAULT,
        *,
        sinks: Mapping[str, Any] | None = None,
        stream: TextIO | None = None,
        resume: bool | str | None = None,
        **settings: Any,
    ) -> None:
        path = Path(file_name).expanduser().absolute()
        file = LogFile(path, fresh=not resume) if usable(path) else None
        here: dict[str, Any] = {} if file is None else {"log": file}
        if verbosity > LogVerbosity.SILENT:
            shown = stream if stream is not None else sys.stdout
            here["console"] = _Lines(shown, environ=dict(os.environ), width=WIDEST, layout=layout(verbosity), rate=None)
        self._callback = callback
        self._ns_per_token: float | None = None
        self._moe: dict[str, Any] = {}
        self._section = 0.0
        self.run = assembly.beside(
            **{"sinks": {**here, **(sinks or {})}, **identity.settle(path, resume, settings), **settings}
        )
        if not self.run.inert:  # as on any rank but the first
            if file is not None:
                self.run.on_record(file.take)
            else:
                notes.say(
                    f"{path} is not a regular file, so no log file is kept there; the run itself has every record"
                )
            if callback is not None:
                self.run.on_record(_caller(callback))
            self.flush(START)
        self._ending = weakref.finalize(self, Run.finish, self.run)
        self._ending.atexit = False  # the run itself sees to that

    # -- at the start ------------------------------------------------------------------------------------------------

    @harmless
    def log_cmd(self, args: Iterable[str]) -> None:
        if isinstance(args, str):
            args = [args]
        elif not isinstance(args, Iterable):
            raise Unusable("args", f"args is {shown(args)}, not a list of texts; nothing is logged")
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
        report = reporter(self.run, "log_dataset")
        for split, loader in (("train", train_loader), ("eval", eval_loader)):
            if loader is None:
                continue
            try:
                self.run.event("dataset", split=split, **parsing.dataset(loader, f"{split}_loader", report))
            except Unusable as error:  # the other split may be fine
                report(error.argument, str(error))

    @harmless
    def log_gpu_model(self, gpu: Mapping[str, Any] | Any = None, *, rank: int = 0, **more: Any) -> None:
        """A GPU as it was found: any of the documented fields, in a mapping, on an object, or by keyword."""
        about = parsing.gpu_model(gpu, more, reporter(self.run, "log_gpu_model"))
        self.run.event("gpu-model", **{"id": rank, **about, "rank": rank})

    @harmless
    def log_allocator(self, stats: Mapping[str, Mapping[str, Any]] | Iterable[Mapping[str, Any]]) -> None:
        """Memory by segment: `{"weights": {"device": bytes, "managed": 0, "pinned": 0, "pageable": 0}}`."""
        self.run.event("allocator", **allocator.report(stats, reporter(self.run, "log_allocator")))

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
        work = {"blocks": blocks, "lm_head": lm_head, "attention": attention}
        if not isinstance(peaks, (Mapping, type(None))):
            raise Unusable("peaks", f"peaks is {shown(peaks)}, not TFLOP/s by dtype; nothing is logged")
        if not isinstance(dtype, (str, Mapping)):
            raise Unusable("dtype", f"dtype is {shown(dtype)}, not a name or names by part; nothing is logged")
        best = {
            name: None if peak is None else parsing.needed(peak, f"the peak of {name}")
            for name, peak in (peaks or {}).items()
        }
        devices = int(parsing.needed(world_size, "world_size"))
        if devices < 1:
            raise Unusable("world_size", f"world_size is {devices}, not a number of devices; nothing is logged")
        each = {name: dtype if isinstance(dtype, str) else dtype.get(name, "bf16") for name in speed_of_light.PARTS}
        parts = {
            name: speed_of_light.ModelPart(parsing.needed(work[name], name), each[name])
            for name in speed_of_light.PARTS
        }
        found = speed_of_light.estimate(
            parts, speed_of_light.peaks_of(None if device is None else str(device), best), devices=devices, whole=True
        )
        self._ns_per_token = found.ns_per_token
        self.run.event("sol", **found.data(), rank=rank)

    @harmless
    def set_expected_time_per_token(self, expected: Any, **options: Any) -> None:
        """Nanoseconds a token, or a trainer whose `config` (that of a dense transformer) says how much work one is."""
        given = parsing.number(expected)
        if isinstance(given, (int, float, str)):
            self._ns_per_token = parsing.needed(given, "expected") or None
            return
        parts = parsing.work(expected)
        self.log_sol_estimate(*(part.flops for part in parts.values()), **options)

    @harmless
    def set_training_tokens(self, tokens: int) -> None:
        """How many tokens there are to train with from now on; every step then says how long it takes."""
        self.run.event("plan", tokens=int(parsing.needed(tokens, "tokens")))

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
        **more: Any,
    ) -> None:
        """One step. By keyword, what else there is of it: `kd_loss`, `moe_aux_loss`, `moe_z_loss`, `moe_load_imbalance`
        and the other `moe_…`, or numbers and texts of your own."""
        report, number = reporter(self.run, "log_step"), parsing.step(step)
        tokens, took = parsing.number(step_tokens), parsing.number(duration_ms)
        row = {
            "epoch": epoch,
            "step_tokens": tokens,
            "duration_ms": took,
            "norm": norm,
            "loss": parsing.loss(loss, report),
            "lr": lr,
            "tokens_per_second": speed_of_light.rate(tokens, took),
            "sol": speed_of_light.share_in_ms(self._ns_per_token, tokens, took),
            **more,
        }
        known = self._known("train", row, schema.STEP, number, report)
        self.run.log({f"train/{name}": value for name, value in known.items()}, step=number)
        if more:
            self._moe |= _numbers({name: known.get(f"moe_{name}") for name in FIELDS})

    @harmless
    def log_step_kd(self, *row: Any, **named: Any) -> None:
        """One step of a distillation: what `log_step` takes, then `kd_loss`."""
        self.log_step(*row[:OF_A_STEP], **{**self._behind("log_step_kd", row, ("kd_loss",)), **named})

    @harmless
    def log_step_moe(self, *row: Any, **named: Any) -> None:
        """One step of a mixture of experts: what `log_step` takes, then three numbers of its routers, or all ten:
        `moe_aux_loss`, `moe_z_loss`, `moe_load_imbalance`, `moe_expert_utilization`, …"""
        known = self._behind("log_step_moe", row, [f"moe_{name}" for name in schema.MOE_STEP]) | named
        self.log_step(*row[:OF_A_STEP], **{name: value for name, value in known.items() if value is not None})

    @harmless
    def log_eval(self, step: int, epoch: float, eval_tokens: int, duration_ms: int, loss: float, **more: Any) -> None:
        """An evaluation. By keyword, what else there is of it."""
        report, number = reporter(self.run, "log_eval"), parsing.step(step)
        tokens, took = parsing.number(eval_tokens), parsing.number(duration_ms)
        row = {
            "epoch": epoch,
            "eval_tokens": tokens,
            "duration_ms": took,
            "loss": parsing.loss(loss, report),
            "tokens_per_second": speed_of_light.rate(tokens, took),
            **more,
        }
        self.run.eval(self._known("eval", row, schema.EVAL, number, report), step=number)

    @harmless
    def log_moe_stats(self, step: int, *stats: Any, **named: Any) -> None:
        """The routers at a step: aux loss, z-loss, utilisation and imbalance; with six more, or any by name."""
        report = reporter(self.run, "log_moe_stats")
        if len(stats) > len(FIELDS):
            report(
                "by place", f"there are {len(FIELDS)} numbers of a router, not {len(stats)}; the others are left out"
            )
        logged = {**dict(zip(FIELDS, stats, strict=False)), **{_SHORT.get(key, key): named[key] for key in named}}
        known = parsing.numbers({name: value for name, value in logged.items() if name in FIELDS}, report)
        more = {name: parsing.number(value) for name, value in logged.items() if name not in FIELDS}
        self._moe |= known
        self.run.event("moe", step=parsing.step(step), **known, **more)

    def get_moe_stats(self, full: bool = False) -> dict[str, Any]:
        """The routers as they were logged last, and whether there are any: zeros and `valid` False for a dense model.

        The four that are documented, or with `full` all ten.
        """
        return moe_stats(self._moe, full)

    @harmless
    def log_gpu_state(self, step: int, gpu_id: int, gpu_util: Any) -> None:
        """A GPU at a step: a `GPUUtilInfo`, or anything with its fields or those of the table."""
        state = parsing.gpu(gpu_util, reporter(self.run, "log_gpu_state"))
        self.run.event("gpu", step=parsing.step(step), **{"id": parsing.step(gpu_id), **state})

    @harmless
    def log_abs_maxes(self, step: int, abs_maxes: Mapping[str, float]) -> None:
        """The largest absolute value of each tensor."""
        if not isinstance(abs_maxes, Mapping):
            raise Unusable("abs_maxes", f"abs_maxes is {shown(abs_maxes)}, not numbers by name; nothing is logged")
        known = parsing.numbers(abs_maxes, reporter(self.run, "log_abs_maxes"))
        listed = [{"name": str(name), "value": value} for name, value in known.items()]
        self.run.event("abs-maxes", step=parsing.step(step), abs_maxes=listed)

    @harmless
    def log_message(self, step: int, msg: str) -> None:
        self.run.event("info", step=parsing.step(step), message=str(msg))

    @harmless
    def log_section_start(self, step: int, info: str) -> None:
        """Something that takes a while; `log_section_end` says how long it took."""
        self._section = time.monotonic()
        self.run.event("section", step=parsing.step(step), info=str(info))

    @harmless
    def log_section_end(self, step: int, info: str = "") -> None:
        took = int((time.monotonic() - self._section) * 1000)
        self.run.event("info", step=parsing.step(step), message=str(info), duration_ms=took)

    @harmless
    def set_phase(self, phase: str) -> None:
        """What later steps are said to be: `converging`, …; empty: nothing."""
        self.run.event("phase", phase=str(phase or ""))

    def _behind(self, call: str, row: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
        """What stands behind the numbers that every step has, by name."""
        more = row[OF_A_STEP:]
        if len(more) > len(names):
            takes = f"a step has {OF_A_STEP} numbers, then at most {', '.join(names)}"
            reporter(self.run, call)("by place", f"{takes}; of these {len(row)} the others are left out")
        return dict(zip(names, more, strict=False))

    def _known(
        self, group: str, row: Mapping[str, Any], documented: Sequence[str], step: Any, report: Report
    ) -> dict[str, Any]:
        """What is known of a row; texts are kept beside it, for the record in the file."""
        known: dict[str, Any] = {}
        for name, given in row.items():
            value = parsing.number(given)
            if isinstance(value, str) and isinstance(step, (int, float)):
                if name in documented:
                    report(name, f"{name} is {shown(value)}, not a number; it is kept as text, and the rest is logged")
                self.run.write(Text, name=f"{group}/{name}", text=redact_text(convert.text(value)), step=step)
            elif value is not None:
                known[name] = value
        return known

    # -- the end -----------------------------------------------------------------------------------------------------

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until the console has everything too."""
        return self.run.settle(timeout)

    def close(self) -> None:
        self.run.finish()

    def __enter__(self) -> TrainingRunLogger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.run.__exit__(kind, error, None)


def _numbers(row: Mapping[str, Any]) -> dict[str, int | float]:
    return {name: value for name, value in row.items() if isinstance(value, (int, float))}


class _Lines(Console):
    """The console, which shows what was logged and no statistics across ranks."""

    def write(self, batch: Sequence[AnyRecord]) -> None:
        logged = [record for record in batch if not schema.is_statistics(record)]
        if logged or not batch:
            super().write(logged)


def _caller(callback: Callable[[str], object]) -> Callable[[Record], None]:
    notes: dict[str, Any] = {}

    def call(record: Record) -> None:
        for line in schema.lines(record, notes):  # type: ignore[arg-type]
            callback(line.decode())

    return call
