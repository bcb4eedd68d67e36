"""Sweeps need W&B's server; these functions say so, and what to use instead."""

from __future__ import annotations

from typing import NoReturn

from chiplog.compat.wandb.errors import UnsupportedError

MESSAGE = (
    "{call} needs W&B's server, which hands out the trials. Run the trials with a local search, one run each: "
    "Optuna (`study.optimize(objective)`) or a loop over `wandb.init(config=..., group='sweep')`; "
    "`chiplog ls --where` and `chiplog compare` rank them"
)


def sweep(*_: object, **__: object) -> NoReturn:
    """Raise: no trial has started, and none could."""
    raise UnsupportedError(MESSAGE.format(call="wandb.sweep()"))


def agent(*_: object, **__: object) -> NoReturn:
    raise UnsupportedError(MESSAGE.format(call="wandb.agent()"))


def controller(*_: object, **__: object) -> NoReturn:
    raise UnsupportedError(MESSAGE.format(call="wandb.controller()"))
