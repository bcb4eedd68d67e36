"""TRL's SFTTrainer."""

import os

import wandb
from datasets import Dataset
from trl import SFTConfig, SFTTrainer
from trl_tokenizer import model, tokenizer

os.environ["WANDB_PROJECT"] = "trl_sft"
data = Dataset.from_dict({"text": ["the cat sat on a mat", "the dog ran away from it"] * 8})
arguments = SFTConfig(
    output_dir=os.environ["OUTPUT_DIR"] + "/sft",
    report_to="wandb",
    max_steps=4,
    logging_steps=2,
    save_strategy="no",
    per_device_train_batch_size=2,
    use_cpu=True,
    bf16=False,
    seed=0,
    max_length=16,
    disable_tqdm=True,
    gradient_checkpointing=False,
)
SFTTrainer(model(), arguments, train_dataset=data, processing_class=tokenizer()).train()
wandb.finish()
del os.environ["WANDB_PROJECT"]
