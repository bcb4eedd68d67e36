"""Secrets are hidden, and what only sounds like one is not."""

from __future__ import annotations

import time

import pytest

from chiplog.core.values.redact import (
    HIDDEN,
    hide,
    redact,
    redact_command,
    redact_text,
    redact_values,
    redact_words,
    secret_values,
)


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


@pytest.mark.parametrize("value", ["hf_datasets", "hf_internal_testing_model", "sk-learn-regressor", "pk-of-a-table-row", "Bearer of bad news", "https://host/x?page=2&tokens=5", "risk-averse-and-long-enough"])  # fmt: skip
def test_words_that_begin_like_a_key_are_kept(value: str) -> None:
    """Names of packages and models are not tokens."""
    assert redact({"note": value}) == {"note": value}
    assert hide({"note": [f"see {value} there"]}) == {"note": [f"see {value} there"]}


def test_what_is_logged_on_purpose_is_judged_by_its_shape_alone() -> None:
    """A column `token` is data; a key in a sample is hidden, and the rest of the sample stays."""
    row = {"token": "the", "secret": "sauce", "text": "my key is hf_abcdefghijklmnop, ok?", "n": 1}
    assert hide(row) == {**row, "text": f"my key is {HIDDEN}, ok?"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Client(api_key='abc', retries=3)", f"Client(api_key={HIDDEN}, retries=3)"),
        ("could not connect: password=abc host=x", f"could not connect: password={HIDDEN} host=x"),
        ('{"WANDB_API_KEY": "abc", "eos_token": "</s>"}', f'{{"WANDB_API_KEY": {HIDDEN}, "eos_token": "</s>"}}'),
        ("https://h/x?api_key=abc&page=2", f"https://h/x?api_key={HIDDEN}&page=2"),
        ("the password: it is long", "the password: it is long"),
    ],
)
def test_texts_lose_the_secrets_they_name(text: str, shown: str) -> None:
    """In exceptions, in the repr of an object, and in JSON on a command line."""
    assert redact_words(text) == shown


@pytest.mark.parametrize(
    "brick",
    ["eyJ-", "eyJaaaaaaaa.", "sk-", "sk-a-", "://", "://a", "hf_", "?token=", "&a", "a=", "password='", "Bearer "],
)
def test_no_text_takes_long(brick: str) -> None:
    """A MiB that keeps looking like a key is searched in a moment."""
    began = time.process_time()
    redact_words(brick * ((1 << 20) // len(brick)))
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    "header",
    [
        *("Authorization", "authorization", "Proxy-Authorization", "X-Api-Key", "x-api-key", "X-Auth-Token", "Cookie"),
        *("X-API-KEY", "DD-API-KEY", "X-AUTH-TOKEN", "X-Client-Secret", "X-Vault-Password", "COOKIE"),
        *("Ocp-Apim-Subscription-Key", "x-amz-security-token", "Private-Token", "X-Custom-ApiKey"),
    ],
)
def test_headers_are_hidden_in_commands_and_texts(header: str) -> None:
    """On a command line, in a traceback, in what a server echoes; with and without quotes."""
    assert "swordfish" not in str(redact_command(["curl", "-H", f"{header}: swordfish of mine", "-v"]))
    assert "swordfish" not in str(redact_command(["train", f"--header={header}: Custom swordfish"]))
    assert redact_text(f"sent '{header}: Basic swordfish' to it") == f"sent '{header}: {HIDDEN}' to it"
    assert "swordfish" not in redact_words(f"GET / HTTP/1.1\r\n{header}: swordfish\r\nAccept: */*")
    assert "Accept: */*" in redact_words(f"GET / HTTP/1.1\r\n{header}: swordfish\r\nAccept: */*")


@pytest.mark.parametrize("header", ["apikey", "Token", "api-key", "ApiKey", "SECRET"])
def test_headers_of_one_word_are_hidden_in_commands(header: str) -> None:
    """In a text they may be anything: "token: the" is what a language model prints."""
    assert redact_command(["curl", "-H", f"{header}: swordfish of mine"]) == ["curl", "-H", f"{header}: {HIDDEN}"]
    assert redact_command([f"--header={header}:swordfish"]) == [f"--header={header}:{HIDDEN}"]
    assert redact_words("next token: the") == "next token: the"


@pytest.mark.parametrize("words", [["-u", "me:swordfish"], ["--user=me:swordfish"], ["--proxy-user", "me:swordfish"]])
def test_the_password_of_a_login_is_hidden(words: list[str]) -> None:
    """As `curl -u user:password` takes it; the user stays."""
    shown = " ".join(redact_command(["curl", *words, "http://host:80/x"]))
    assert "swordfish" not in shown and f"me:{HIDDEN}" in shown and "http://host:80/x" in shown
    assert redact_command(["python", "-u", "train.py"]) == ["python", "-u", "train.py"]


def test_secrets_that_begin_with_a_dash_are_hidden() -> None:
    """What follows a flag for a secret is hidden, whatever it looks like."""
    assert redact_command(["train", "--api-key", "-swordfish", "--lr", "3"]) == [
        "train",
        "--api-key",
        HIDDEN,
        "--lr",
        "3",
    ]
    assert "swordfish" not in str(redact_command(["train", "--password", "--token", "swordfish"]))
    assert "swordfish" not in str(redact_command(["train", "--token", "--swordfish"]))


def test_known_values_are_hidden_in_what_others_say() -> None:
    """The secrets of an environment, by the names of their variables; short ones and others stay."""
    environ = {
        "MLFLOW_TRACKING_TOKEN": "swordfish",
        "HOME": "/home/me",
        "MY_PASSWORD": "abc",
        "PWD": "/home/me",
        "OLDPWD": "/home",
    }
    assert secret_values(environ) == ["swordfish"]
    assert redact_values("no swordfish in /home/me, abc", secret_values(environ)) == f"no {HIDDEN} in /home/me, abc"
