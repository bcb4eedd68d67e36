"""Secrets are hidden, and what only sounds like one is not."""

from __future__ import annotations

import pytest

from chiplog.core.redact import HIDDEN, redact, redact_command, redact_text


@pytest.mark.parametrize(
    "key",
    ["password", "db_password", "HF_TOKEN", "wandbApiKey", "api_key", "apikey", "AWS_SECRET_ACCESS_KEY", "credentials",
     "cookie", "sentry_dsn", "accessKey", "auth.token", "client-secret", "id_token", "db_pwd"],
)  # fmt: skip
def test_strings_under_telling_keys_are_hidden(key: str) -> None:
    """Whole words decide, however they are written together."""
    assert redact({key: "plain-looking"}) == {key: HIDDEN}


def test_a_llama_config_stays_as_it_is() -> None:
    """Words that only look like secrets are left alone."""
    config = {
        "num_key_value_heads": 8, "tokenizer": "llama", "num_tokens": "16384", "eos_token": "</s>", "bos_token_id": 1,
        "pad_token": "<pad>", "tokens_per_step": 4, "token_type_ids": "x", "key_padding": "left", "secret_sauce": 3,
        "commit": "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3", "monkey": "chimp", "max_new_tokens": "12",
    }  # fmt: skip
    assert redact(config) == config


@pytest.mark.parametrize(
    "value",
    ["sk-abcdefghijklmnop1234", "hf_abcdefghijklmnop", "ghp_abcdefghijklmnop1234", "AKIAIOSFODNN7EXAMPLE",
     "eyJhbGciOi.eyJzdWIi.sig", "Bearer abc.def", "-----BEGIN RSA PRIVATE KEY-----\nMII"],
)  # fmt: skip
def test_values_that_look_like_keys_are_hidden_anywhere(value: str) -> None:
    """A known prefix is enough."""
    assert redact({"note": [value]}) == {"note": [HIDDEN]}


def test_urls_lose_their_user_and_password() -> None:
    """The rest of the address stays."""
    assert redact_text("https://user:pw@host/x?y=1") == f"https://{HIDDEN}@host/x?y=1"


def test_a_mapping_under_a_telling_key_is_hidden_whole() -> None:
    """Nested strings inherit the verdict."""
    assert redact({"credentials": {"user": "me", "port": 5}}) == {"credentials": {"user": HIDDEN, "port": 5}}


def test_command_lines_lose_their_secrets() -> None:
    """With = or without, and as bare values."""
    command = ["train.py", "--api-key=abc", "--token", "def", "--lr", "0.1", "PASSWORD=x", "hf_abcdefghijklmnop"]
    assert redact_command(command) == [
        "train.py", f"--api-key={HIDDEN}", "--token", HIDDEN, "--lr", "0.1", f"PASSWORD={HIDDEN}", HIDDEN,
    ]  # fmt: skip
