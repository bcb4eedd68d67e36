"""transformers: `import chiplog.integrations.transformers`, then `report_to="chiplog"` in the arguments; TRL too.

Or `Trainer(..., callbacks=[ChiplogCallback(project="tiny-lm")])`, with any settings of `chiplog.init`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback
from transformers.integrations import integration_utils
from transformers.trainer_callback import ExportableState

from chiplog.core import messages
from chiplog.core.guarded import failed
from chiplog.core.run import Run
from chiplog.integrations.shared.completions import Completions
from chiplog.integrations.shared.framework_run import FrameworkRun
from chiplog.integrations.shared.hooks import Framework, hook

TRANSFORMERS = Framework("transformers", "transformers", "4.57 to 5.22")
PROJECT = "huggingface"  # the default of the arguments, which is nobody's choice
ALONG = {"epoch", "num_input_tokens_seen"}  # in rows of evaluations, too
LAST = {"total_flos", "train_loss"}  # in the last row only, which summarises the training


class ChiplogCallback(TrainerCallback, ExportableState):
    """Records the training of a Trainer: a run passed in, the script's current run, or one of its own.

    Training from a checkpoint is an attempt of the run that saved it; each trial of a hyperparameter search is a run.
    """

    def __init__(self, run: Run | None = None, meter: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self._hooks = FrameworkRun("transformers", run, **settings)
        self._options = dict(meter or {})
        self._rows: dict[tuple[str, ...], tuple[str, ...]] = {}  # the names of rows of training, by those of `logs`
        self._evaluated: tuple[int, frozenset[str]] = (-1, frozenset())
        self._training = self._in_step = False
        self._tokens = 0
        self._counts_tokens = False
        self._samples: int | None = None
        self._completions: Completions | None = None

    @hook(TRANSFORMERS, None)
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if not state.is_world_process_zero:
            return
        if not self._training:
            self._hooks.begin()
        if self._hooks.start(_config(args, model), **_settings(args, state, self._hooks), apart=_is_trial(state)):
            self._training = True
            self._completions = Completions(args.output_dir)
            self._meter(args, state, model)

    @hook(TRANSFORMERS, None)
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._training and state.is_world_process_zero and (run := self._hooks.run) is not None:
            self._keep_completions(run)
            run.start_step(state.global_step + 1)
            self._in_step = True

    @hook(TRANSFORMERS, None)
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._in_step and (run := self._hooks.run) is not None:
            self._in_step = False
            before, self._tokens = self._tokens, state.num_input_tokens_seen
            tokens = self._tokens - before if self._counts_tokens else None
            run.end_step(step=state.global_step, tokens=tokens, samples=self._samples)

    @hook(TRANSFORMERS, None)
    def on_log(
        self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, model: Any = None, **_: Any
    ) -> None:
        if not state.is_world_process_zero or not logs:
            return
        if (run := self._hooks.run) is None and (run := self._started(args, state, model)) is None:
            return
        keys = tuple(logs)
        if (names := self._rows.get(keys)) is None:
            names = self._rows[keys] = _training_names(keys)
        if names:
            run.log(dict(zip(names, logs.values(), strict=False)), state.global_step)
        elif not LAST.isdisjoint(keys):
            run.summary.update({name: value for name, value in logs.items() if name not in ALONG})
        else:
            self._evaluated = (state.global_step, frozenset(logs))
            self._evaluate(run, logs, state.global_step)

    @hook(TRANSFORMERS, None)
    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, Any] | None = None, model: Any = None, **_: Any
    ) -> None:
        """The numbers arrive at `on_log`, too, and once is enough."""
        if not state.is_world_process_zero or not metrics:
            return
        step, kept = self._evaluated
        rest = {name: value for name, value in metrics.items() if step != state.global_step or name not in kept}
        if any(map(_is_evaluated, rest)) and (run := self._started(args, state, model)) is not None:
            self._evaluate(run, rest, state.global_step)

    @hook(TRANSFORMERS, None)
    def on_predict(self, args: Any, state: Any, control: Any, metrics: Mapping[str, Any], **_: Any) -> None:
        if state.is_world_process_zero and metrics and (run := self._started(args, state, None)) is not None:
            run.log({_name(name): value for name, value in metrics.items()}, state.global_step)

    @hook(TRANSFORMERS, None)
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero and (run := self._hooks.run) is not None:
            run.event("checkpoint", state.global_step, path=f"{args.output_dir}/checkpoint-{state.global_step}")

    @hook(TRANSFORMERS, None)
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The run stays open for evaluations, until the next training or the end of the script."""
        if not state.is_world_process_zero or (run := self._hooks.run) is None:
            return
        self._training = self._in_step = False
        self._keep_completions(run)
        if _is_trial(state):
            self._hooks.end()
        else:
            self._hooks.done()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: which run to continue."""
        return {"args": {}, "attributes": {"resumes": self._hooks.token()}}

    @property
    def run(self) -> Run | None:
        """The run, once training has started."""
        return self._hooks.run

    def _started(self, args: Any, state: Any, model: Any) -> Run | None:
        """The run, also for what comes before training or without it."""
        if (run := self._hooks.run) is None:
            run = self._hooks.start(_config(args, model), **_settings(args, state, self._hooks))
        return run

    def _evaluate(self, run: Run, metrics: Mapping[str, Any], step: int) -> None:
        """Keep the row of an evaluation."""
        run.eval({_name(name): value for name, value in metrics.items() if _is_evaluated(name)}, step)
        rest = {_name(name): value for name, value in metrics.items() if not _is_evaluated(name) and name not in ALONG}
        if rest:
            run.log(rest, step)

    def _keep_completions(self, run: Run) -> None:
        if self._completions is not None:
            self._completions.keep(run)

    def _meter(self, args: Any, state: Any, model: Any) -> None:
        run = self._hooks.run
        if run is None or run.inert:
            return
        world = args.world_size
        self._tokens = state.num_input_tokens_seen
        self._counts_tokens = str(args.include_num_input_tokens_seen) not in ("no", "False")
        self._samples = args.train_batch_size * args.gradient_accumulation_steps * world
        every = max(1, int(state.logging_steps or 1))
        options = {"total_steps": state.max_steps, "log_every": every, "devices": world, **self._options}
        config = getattr(model, "config", None)
        if self._counts_tokens and config is not None and getattr(model, "peft_config", None) is None:
            try:
                run.meter(**{"model": config, **options})
                return
            except Exception as error:  # a model that the formula does not fit
                failed("transformers: the operations per token, so there is no MFU,", error)
        run.meter(**options)


def _config(args: Any, model: Any) -> dict[str, Any]:
    config = dict(args.to_dict())
    described = getattr(model, "config", None)
    if described is not None:
        config["model"] = dict(described) if isinstance(described, dict) else described.to_dict()
    if callable(count := getattr(model, "num_parameters", None)):
        config["parameters"] = count()
    if (adapters := getattr(model, "peft_config", None)) is not None:
        config["peft"] = {str(name): one.to_dict() for name, one in adapters.items()}
    return config


def _settings(args: Any, state: Any, hooks: FrameworkRun) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if (project := getattr(args, "project", PROJECT)) != PROJECT:
        settings["project"] = project
    if _is_trial(state) and state.trial_name:
        settings["name"] = state.trial_name
    elif args.run_name and args.run_name != args.output_dir:
        settings["name"] = args.run_name
    if state.global_step and not _is_trial(state) and (token := _saved_token(state)):
        settings["resume"] = token
    return {name: value for name, value in settings.items() if name not in hooks.settings}


def _saved_token(state: Any) -> str | None:
    """The run that saved the checkpoint from which training continues."""
    saved = (state.stateful_callbacks or {}).get(ChiplogCallback.__name__)
    for one in saved if isinstance(saved, list) else [saved]:
        if isinstance(one, dict) and (token := one.get("attributes", {}).get("resumes")):
            return str(token)
    return None


def _is_trial(state: Any) -> bool:
    return bool(getattr(state, "is_hyper_param_search", False))


def _training_names(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a row of training; none for an evaluation, and for the last row."""
    apart = any(map(_is_evaluated, keys)) or not LAST.isdisjoint(keys)
    return () if apart else tuple(map(_name, keys))


def _is_evaluated(name: object) -> bool:
    return str(name).startswith(("eval_", "eval/"))


def _name(name: object) -> str:
    """`eval_loss` is `eval/loss`, `test_loss` `test/loss`, and everything else is of training."""
    words = str(name)
    for group in ("eval", "test", "train"):
        if words.startswith(f"{group}_"):
            return f"{group}/{words[len(group) + 1 :]}"
    return words if words.startswith(("train/", "eval/", "test/")) else f"train/{words}"


def _register() -> None:
    """Let `report_to="chiplog"` find the callback."""
    integrations = getattr(integration_utils, "INTEGRATION_TO_CALLBACK", None)
    if isinstance(integrations, dict):
        integrations["chiplog"] = ChiplogCallback
    else:
        advice = 'report_to="chiplog" cannot be used here, but callbacks=[ChiplogCallback()] can'
        messages.say(f"transformers: {TRANSFORMERS.shape()}; {advice}")


_register()
