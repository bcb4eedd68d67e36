"""A tokenizer and a model that need no download; for the scripts with TRL."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

WORDS = [
    "<pad>",
    "<eos>",
    "<unk>",
    *["the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "ran", "away", "from", "dog"],
]


def tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    size = len(WORDS)
    return GPT2LMHeadModel(
        GPT2Config(
            n_layer=1,
            n_head=2,
            n_embd=16,
            vocab_size=size,
            n_positions=64,
            bos_token_id=1,
            eos_token_id=1,
            pad_token_id=0,
        )
    )
