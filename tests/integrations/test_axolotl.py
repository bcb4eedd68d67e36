"""The plugin for Axolotl, with the documented hook of its base class."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.framework_runs import stored_runs
from tests.support.framework_stubs import BasePlugin, integration

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import TrainingArguments

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_plugin_adds_the_callback_for_transformers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, with Axolotl's configuration; hooks of another version are reported."""
    axolotl = integration("axolotl", monkeypatch, axolotl__integrations__base={"BasePlugin": BasePlugin})
    plugin: Any = axolotl.ChiplogPlugin()
    trainer = SimpleNamespace(callback_handler=SimpleNamespace(callbacks=[]))
    [callback] = plugin.add_callbacks_post_trainer({"base_model": "m", "lora_r": None}, trainer)
    trainer.callback_handler.callbacks.append(callback)
    assert plugin.add_callbacks_post_trainer({}, trainer) == []
    state = SimpleNamespace(
        is_world_process_zero=True, global_step=1, num_input_tokens_seen=0, max_steps=5, logging_steps=1,
        stateful_callbacks={}, is_hyper_param_search=False, trial_name=None,
    )  # fmt: skip
    arguments = TrainingArguments(output_dir="out", report_to="none", use_cpu=True)
    callback.on_train_begin(arguments, state, None)
    callback.on_log(arguments, state, None, logs={"loss": 1.0})
    callback.on_train_end(arguments, state, None)
    [run] = stored_runs()
    assert run.config["axolotl"] == {"base_model": "m"} and "train/loss" in run.names()
    assert plugin.add_callbacks_post_trainer(None) == []
    assert "chiplog works with 0.19" in capsys.readouterr().err
