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

from chiplog import Run, assembly
from chiplog.core import messages
from chiplog.core.records import AnyRecord, Plain, Record
from chiplog.frontends.surogate import allocator, arguments, run_choice, schema
from chiplog.frontends.surogate.console import LogVerbosity, layout
from chiplog.frontends.surogate.log_file import LogFile, usable
from chiplog.frontends.surogate.moe_stats import moe_stats
from chiplog.frontends.surogate.safe_calls import Unusable, harmless, reporter, shown
from chiplog.metrics import speed_of_light
from chiplog.metrics.moe import FIELDS
from chiplog.sinks.console.sink import Console

START = 10.0  # s that the constructor waits for the file: a busy machine may take long to start a thread
WIDEST = 1 << 16  # characters: lines are never cut
_SHORT = {"utilization": "expert_utilization", "imbalance": "load_imbalance"}  # the names in the documented call
STEP_ARGUMENTS = 7  # of every step: its number, epoch, tokens, milliseconds, norm, loss, learning rate
MOE_ARGUMENTS = tuple(f"moe_{name}" for name in schema.MOE_STEP)  # that may follow them


class TrainingRunLogger:
    """Logs a run to a JSON array file, the console and a callback, with Surogate's calls.

    Every logger is a new run, and the file of an earlier one is renamed; `resume=True` continues the last run of this
    file, if there is one. A record is in the file when its call returns. The callback also gets each line of the file,
    on the thread that logs; whatever it raises is reported and does not reach the training.
    """

    def __init__(
        self,
        file_name: str | Path,
        callback: Callable[[str], object] | None = None,
        verbosity: int = LogVerbosity.DEFAULT,
        *,
        sinks: Mapping[str, object] | None = None,
        stream: TextIO | None = None,
        resume: bool | str | None = None,
        **settings: Any,
    ) -> None:
        path = Path(file_name).expanduser().absolute()
        file = LogFile(path, fresh=not resume) if usable(path) else None
        own: dict[str, object] = {} if file is None else {"log": file}
        if verbosity > LogVerbosity.SILENT:
            shown = stream if stream is not None else sys.stdout
            own["console"] = _Lines(shown, environ=dict(os.environ), width=WIDEST, layout=layout(verbosity), rate=None)
        self._callback = callback  # the original's name
        self._ns_per_token: float | None = None
        self._moe: dict[str, int | float] = {}
        self._section = 0.0
        self.run = assembly.beside(
            **{"sinks": {**own, **(sinks or {})}, **run_choice.choose(path, resume, settings), **settings}
        )
        if not self.run.inert:  # on rank 0
            if file is not None:
                self.run.on_record(file.write_now)
            else:
                messages.say(f"{path} is not a regular file, so there is no log file; the run has every record")
            if callback is not None:
                self.run.on_record(_caller(callback))
            if file is not None:
                self._wait_for(file)
        self._ending = weakref.finalize(self, Run.finish, self.run)
        self._ending.atexit = False  # the run has its own exit hook

    def _wait_for(self, file: LogFile) -> None:
        """Wait until records can be written to the file, unless it cannot be kept."""
        deadline = time.monotonic() + START
        while not file.ready and time.monotonic() < deadline:
            self.run.settle(0.0, "log")
            if self.run.health()["sinks"]["log"]["state"] != "ok":
                return
            time.sleep(0.002)

    # -- at the start ------------------------------------------------------------------------------------------------

    @harmless
    def log_cmd(self, args: Iterable[str]) -> None:
        if isinstance(args, str):
            args = [args]
        elif not isinstance(args, Iterable):
            raise Unusable("args", f"args is {shown(args)}, not a list of strings; nothing is logged")
        self.run.event("cmd", cmd=[str(arg) for arg in args])

    def log_options(self, options: Mapping[str, bool | int | float | str]) -> None:
        """The options of the run, which become its config; raises TypeError for a value that is not plain."""
        for name, value in options.items():
            if not isinstance(value, (bool, int, float, str)):
                raise TypeError(f"Unsupported option type for key: {name} ({type(value).__name__})")
        self.run.config.update(options)

    @harmless
    def log_dataset(self, train_loader: object, eval_loader: object = None) -> None:
        """The splits: mappings or objects with `files` (a number, names, or tokens by name), `tokens`, `file_index`,
        `chunk_index` and `seed`."""
        report = reporter(self.run, "log_dataset")
        for split, loader in (("train", train_loader), ("eval", eval_loader)):
            if loader is None:
                continue
            try:
                self.run.event("dataset", split=split, **arguments.dataset(loader, f"{split}_loader", report))
            except Unusable as error:  # the other split may be usable
                report(error.argument, str(error))

    @harmless
    def log_gpu_model(self, gpu: object = None, *, rank: int = 0, **more: object) -> None:
        """A GPU at the start: any of the documented fields, in a mapping, on an object, or by keyword."""
        about = arguments.gpu_model(gpu, more, reporter(self.run, "log_gpu_model"))
        self.run.event("gpu-model", **{"id": rank, **about, "rank": rank})

    @harmless
    def log_allocator(self, stats: Mapping[str, Mapping[str, object]] | Iterable[Mapping[str, object]]) -> None:
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
        """The speed of light: FLOPs per token of each part, in one dtype or one each, on devices with this name.

        `peaks`, in TFLOP/s by dtype, override the device's own. Every later step has its `sol`.
        """
        if not isinstance(peaks, (Mapping, type(None))):
            raise Unusable("peaks", f"peaks is {shown(peaks)}, not TFLOP/s by dtype; nothing is logged")
        if not isinstance(dtype, (str, Mapping)):
            raise Unusable("dtype", f"dtype is {shown(dtype)}, not a name or names by part; nothing is logged")
        best = {
            name: None if peak is None else arguments.required(peak, f"the peak of {name}")
            for name, peak in (peaks or {}).items()
        }
        devices = int(arguments.required(world_size, "world_size"))
        if devices < 1:
            raise Unusable("world_size", f"world_size is {devices}, not a number of devices; nothing is logged")
        dtypes = dict.fromkeys(speed_of_light.PARTS, dtype) if isinstance(dtype, str) else dtype
        parts = {
            name: speed_of_light.ModelPart(arguments.required(flops, name), dtypes.get(name, "bf16"))
            for name, flops in (("blocks", blocks), ("lm_head", lm_head), ("attention", attention))
        }
        estimate = speed_of_light.estimate(
            parts, speed_of_light.peaks_of(None if device is None else str(device), best), devices=devices, whole=True
        )
        self._ns_per_token = estimate.ns_per_token
        self.run.event("sol", **estimate.data(), rank=rank)

    @harmless
    def set_expected_time_per_token(self, expected: object, **options: Any) -> None:
        """Nanoseconds per token, or a trainer whose `config`, of a dense transformer, determines the work per token."""
        nanoseconds = arguments.number(expected)
        if isinstance(nanoseconds, (int, float, str)):
            self._ns_per_token = arguments.required(nanoseconds, "expected") or None
            return
        parts = arguments.work(expected)
        self.log_sol_estimate(*(part.flops for part in parts.values()), **options)

    @harmless
    def set_training_tokens(self, tokens: int) -> None:
        """How many tokens are left to train on; every later step shows the time left."""
        self.run.event("plan", tokens=int(arguments.required(tokens, "tokens")))

    # -- while training -----------------------------------------------------------------------------------------------

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
        *routers: object,
        **more: object,
    ) -> None:
        """One step. `moe_aux_loss`, `moe_z_loss`, `moe_load_imbalance` and the other `moe_…` may follow by position or
        by keyword; keywords also add `kd_loss`, and numbers or texts of your own."""
        if routers:
            more = {**_further(self.run, "log_step", routers, MOE_ARGUMENTS), **more}
        report, number = reporter(self.run, "log_step"), arguments.step(step)
        tokens, duration = arguments.number(step_tokens), arguments.number(duration_ms)
        row = {
            "epoch": epoch,
            "step_tokens": tokens,
            "duration_ms": duration,
            "norm": norm,
            "loss": arguments.loss(loss, report),
            "lr": lr,
            "tokens_per_second": speed_of_light.rate(tokens, duration),
            "sol": speed_of_light.share_in_ms(self._ns_per_token, tokens, duration),
            **more,
        }
        logged = arguments.loggable(self.run, "train", row, schema.STEP, number, report)
        self.run.log({f"train/{name}": value for name, value in logged.items()}, step=number)
        if more:
            stats = {name: logged.get(f"moe_{name}") for name in FIELDS}
            self._moe |= {name: value for name, value in stats.items() if isinstance(value, (int, float))}

    @harmless
    def log_step_kd(self, *row: Any, **named: Any) -> None:
        """One step of a distillation: the arguments of `log_step`, then `kd_loss`."""
        self.log_step(
            *row[:STEP_ARGUMENTS], **{**_further(self.run, "log_step_kd", row[STEP_ARGUMENTS:], ("kd_loss",)), **named}
        )

    @harmless
    def log_step_moe(self, *row: Any, **named: Any) -> None:
        """One step of a mixture of experts: the arguments of `log_step`, then three numbers of its routers, or all ten:
        `moe_aux_loss`, `moe_z_loss`, `moe_load_imbalance`, `moe_expert_utilization`, …"""
        routers = _further(self.run, "log_step_moe", row[STEP_ARGUMENTS:], MOE_ARGUMENTS) | named
        self.log_step(*row[:STEP_ARGUMENTS], **{name: value for name, value in routers.items() if value is not None})

    @harmless
    def log_eval(
        self, step: int, epoch: float, eval_tokens: int, duration_ms: int, loss: float, **more: object
    ) -> None:
        """An evaluation. Keywords add numbers and texts of your own."""
        report, number = reporter(self.run, "log_eval"), arguments.step(step)
        tokens, duration = arguments.number(eval_tokens), arguments.number(duration_ms)
        row = {
            "epoch": epoch,
            "eval_tokens": tokens,
            "duration_ms": duration,
            "loss": arguments.loss(loss, report),
            "tokens_per_second": speed_of_light.rate(tokens, duration),
            **more,
        }
        self.run.eval(arguments.loggable(self.run, "eval", row, schema.EVAL, number, report), step=number)

    @harmless
    def log_moe_stats(self, step: int, *stats: object, **named: object) -> None:
        """The routers at a step: aux loss, z-loss, utilization and imbalance; then six more, or any by name."""
        report = reporter(self.run, "log_moe_stats")
        if len(stats) > len(FIELDS):
            report("by place", f"routers have {len(FIELDS)} numbers, not {len(stats)}; the others are left out")
        logged = {**dict(zip(FIELDS, stats, strict=False)), **{_SHORT.get(key, key): named[key] for key in named}}
        routers = arguments.numbers({name: value for name, value in logged.items() if name in FIELDS}, report)
        more: dict[str, Plain] = {name: arguments.number(value) for name, value in logged.items() if name not in FIELDS}
        self._moe |= routers
        self.run.event("moe", step=arguments.step(step), **routers, **more)

    def get_moe_stats(self, full: bool = False) -> dict[str, float | bool]:
        """The newest numbers of the routers, and whether there are any: zeros and `valid` False for a dense model.

        The four documented numbers, or with `full` all ten.
        """
        return moe_stats(self._moe, full)

    @harmless
    def log_gpu_state(self, step: int, gpu_id: int, gpu_util: object) -> None:
        """A GPU at a step: a `GPUUtilInfo`, or anything with its fields or those of the table."""
        state = arguments.gpu(gpu_util, reporter(self.run, "log_gpu_state"))
        self.run.event("gpu", step=arguments.step(step), **{"id": arguments.step(gpu_id), **state})

    @harmless
    def log_abs_maxes(self, step: int, abs_maxes: Mapping[str, float]) -> None:
        """The largest absolute value of each tensor."""
        if not isinstance(abs_maxes, Mapping):
            raise Unusable("abs_maxes", f"abs_maxes is {shown(abs_maxes)}, not numbers by name; nothing is logged")
        values = arguments.numbers(abs_maxes, reporter(self.run, "log_abs_maxes"))
        listed = [{"name": str(name), "value": value} for name, value in values.items()]
        self.run.event("abs-maxes", step=arguments.step(step), abs_maxes=listed)

    @harmless
    def log_message(self, step: int, msg: str) -> None:
        self.run.event("info", step=arguments.step(step), message=str(msg))

    @harmless
    def log_section_start(self, step: int, info: str) -> None:
        """Start something that takes a while; `log_section_end` logs how long it took."""
        self._section = time.monotonic()
        self.run.event("section", step=arguments.step(step), info=str(info))

    @harmless
    def log_section_end(self, step: int, info: str = "") -> None:
        duration = int((time.monotonic() - self._section) * 1000)
        self.run.event("info", step=arguments.step(step), message=str(info), duration_ms=duration)

    @harmless
    def set_phase(self, phase: str) -> None:
        """The phase of later steps, such as `converging`; empty for none."""
        self.run.event("phase", phase=str(phase or ""))

    # -- the end -----------------------------------------------------------------------------------------------------

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until the console has everything."""
        return self.run.settle(timeout)

    def close(self) -> None:
        self.run.finish()

    def __enter__(self) -> TrainingRunLogger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.run.__exit__(kind, error, None)


def _further(run: Run, call: str, more: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """The arguments after those of every step, by name."""
    if len(more) > len(names):
        takes = f"a step has {STEP_ARGUMENTS} numbers, then at most {', '.join(names)}"
        reporter(run, call)("by place", f"{takes}; of these {STEP_ARGUMENTS + len(more)} the others are left out")
    return dict(zip(names, more, strict=False))


class _Lines(Console):
    """The console, without statistics across ranks."""

    def write(self, batch: Sequence[AnyRecord]) -> None:
        logged = [record for record in batch if not schema.is_statistics(record)]
        if logged or not batch:
            super().write(logged)


def _caller(callback: Callable[[str], object]) -> Callable[[Record], None]:
    """A listener that passes the lines of each record to the callback."""
    notes: dict[str, Plain] = {}

    def call(record: Record) -> None:
        for line in schema.lines(record, notes):  # type: ignore[arg-type]
            callback(line.decode())

    return call
