"""W&B's callback for Stable-Baselines3, with a model that is trained."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from stable_baselines3 import PPO

import chiplog
import chiplog.compat.wandb as wandb
from chiplog.compat.wandb.integration.sb3 import WandbCallback


@pytest.fixture(autouse=True)
def no_run_left() -> Iterator[None]:
    yield
    wandb.finish()


def learn(callback: WandbCallback, steps: int = 16) -> PPO:
    """A model of a few steps, with a network as small as they come."""
    small = {"net_arch": [2]}
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1, device="cpu", policy_kwargs=small)
    return model.learn(total_timesteps=steps, callback=callback)


def test_the_hyperparameters_are_the_config() -> None:
    """As plain values, and without replacing what the script has chosen."""
    wandb.init(id="run", config={"gamma": "mine"})
    learn(WandbCallback())
    wandb.finish()
    config = chiplog.read("run").config
    assert (config["algo"], config["gamma"]) == ("PPO", "mine")
    assert (config["n_steps"], config["batch_size"], config["device"]) == (8, 8, "cpu")
    assert isinstance(config["policy"], str) and "ActorCriticPolicy" in config["policy"]


def test_the_model_is_saved_and_kept_with_the_run(tmp_path: Path) -> None:
    """In a folder that may not exist yet; the copy is that of the end."""
    wandb.init(id="run")
    learn(WandbCallback(model_save_path=str(tmp_path / "new" / "models")))
    wandb.finish()
    path = tmp_path / "new" / "models" / "model.zip"
    assert PPO.load(path, device="cpu").num_timesteps == 16
    copies = list(chiplog.read("run").path.rglob("*.zip"))
    assert [copy.read_bytes() for copy in copies] == [path.read_bytes()]
    assert "policy.pth" in zipfile.ZipFile(copies[0]).namelist()


def test_the_model_is_saved_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every so many steps, and at the end; without a path it is not saved."""
    saved: list[int] = []
    wandb.init(id="run")
    callback = WandbCallback(model_save_path=str(tmp_path), model_save_freq=6)
    monkeypatch.setattr(PPO, "save", lambda self, path: saved.append(self.num_timesteps))
    learn(callback)
    assert saved == [6, 12, 16]
    learn(WandbCallback(model_save_freq=6))
    assert saved == [6, 12, 16]


def test_gradients_are_watched_if_they_are_asked_for() -> None:
    """By the names of the policy's parameters."""
    wandb.init(id="run")
    learn(WandbCallback(gradient_save_freq=1))
    wandb.finish()
    names = {record.name for record in chiplog.read("run").records("histogram")}  # type: ignore[union-attr]
    assert any("action_net" in name for name in names), names


def test_without_a_run_training_goes_on() -> None:
    """What a script of W&B's would have failed with is reported instead."""
    assert learn(WandbCallback(gradient_save_freq=1)).num_timesteps == 16
