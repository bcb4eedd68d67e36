"""Stable-Baselines3 with `sync_tensorboard=True` and W&B's callback."""

import os

import wandb
from stable_baselines3 import PPO
from wandb.integration.sb3 import WandbCallback

run = wandb.init(project="sb3_tensorboard", sync_tensorboard=True, config={"policy": "MlpPolicy"})
model = PPO(
    "MlpPolicy",
    "CartPole-v1",
    n_steps=32,
    batch_size=32,
    n_epochs=1,
    seed=0,
    device="cpu",
    tensorboard_log=os.environ["OUTPUT_DIR"] + "/sb3",
)
model.learn(total_timesteps=96, callback=WandbCallback(model_save_path=os.environ["OUTPUT_DIR"] + "/models"))
run.finish()
