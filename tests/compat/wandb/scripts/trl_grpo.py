"""TRL's GRPOTrainer with tables of completions."""

import os

import wandb
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl_tokenizer import model, tokenizer

os.environ["WANDB_PROJECT"] = "trl_grpo"
data = Dataset.from_dict({"prompt": ["the cat", "a dog"] * 4})
arguments = GRPOConfig(
    output_dir=os.environ["OUTPUT_DIR"] + "/grpo",
    report_to="wandb",
    max_steps=2,
    logging_steps=1,
    save_strategy="no",
    per_device_train_batch_size=4,
    num_generations=2,
    max_completion_length=4,
    log_completions=True,
    use_cpu=True,
    bf16=False,
    seed=0,
    disable_tqdm=True,
    gradient_checkpointing=False,
)


def length(completions, **_):
    return [float(len(completion)) for completion in completions]


GRPOTrainer(model(), reward_funcs=length, args=arguments, train_dataset=data, processing_class=tokenizer()).train()
wandb.finish()
del os.environ["WANDB_PROJECT"]
