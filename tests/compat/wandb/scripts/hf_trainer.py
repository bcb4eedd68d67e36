"""transformers' Trainer with `report_to="wandb"` on a tiny random model, with evaluations."""

import os

import torch
import wandb
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

os.environ["WANDB_PROJECT"] = "hf_trainer"
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=64, n_positions=16))
data = [{"input_ids": torch.arange(8) % 64, "labels": torch.arange(8) % 64} for _ in range(16)]
arguments = TrainingArguments(
    output_dir=os.environ["OUTPUT_DIR"] + "/hf",
    run_name="tiny run",
    report_to="wandb",
    max_steps=6,
    logging_steps=2,
    eval_steps=3,
    eval_strategy="steps",
    save_strategy="no",
    per_device_train_batch_size=4,
    use_cpu=True,
    seed=0,
    disable_tqdm=True,
)
Trainer(model, arguments, train_dataset=data, eval_dataset=data[:4]).train()
wandb.finish()
del os.environ["WANDB_PROJECT"]
