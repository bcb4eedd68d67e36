"""Secrets that come along in a config, on a command line, in a URL or in an exception."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .harness import trainer

# Made up for this test; none of them opens anything.
SECRETS = {
    "wandb": "0123456789abcdef0123456789abcdef01234567",
    "huggingface": "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "openai": "sk-" + "proj-abcdefghijklmnopqrstuvwxyz0123",
    "github": "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "aws": "AKIA" + "ABCDEFGHIJKLMNOP",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "password": "correct-horse-battery",
    "nested": "staple-of-a-nested-list",
    "cookie": "session=monster",
    "dsn": "not-a-url-but-secret",
    "url": "hunter2-in-a-url",
    "argv flag": "swordfish-argv-flag",
    "argv next": "swordfish-argv-next",
    "argv url": "hunter3-on-the-command-line",
    "exception url": "hunter4-in-an-exception",
    "exception key": "sk-" + "live-in-an-exception-0123456789",
    "changed": "set-after-the-start",
    "bearer": "Bearer abcdef0123456789",
}

KEPT = {
    "num_key_value_heads": 8,
    "tokenizer": "meta-llama/Llama-3.1-8B",
    "tokenizer_class": "LlamaTokenizerFast",
    "eos_token": "</s>",
    "bos_token_id": 128000,
    "pad_token": "<pad>",
    "num_tokens": 10**12,
    "max_tokens_per_batch": 16384,
    "key_dim": 128,
    "secretary": "Ms. Moneypenny",
    "commit": "3f786850e387550fdab836ed7e6dc881de23001b",
    "monkey": "banana",
}

TRAIN = """
S, KEPT = {secrets!r}, {kept!r}
run = init(sinks="csv,json,jsonl", config={{
    **KEPT,
    "WANDB_API_KEY": S["wandb"],
    "hub": {{"token": S["huggingface"], "list": [S["openai"], {{"deep": S["github"]}}]}},
    "storage": {{"access_key": S["aws"], "auth": S["jwt"]}},
    "db_password": S["password"],
    "credentials": [S["nested"], {{"any": S["nested"]}}],
    "Cookie": S["cookie"],
    "sentry_dsn": S["dsn"],
    "data": "s3://user:" + S["url"] + "@bucket/path",
    "headers": {{"Authorization": S["bearer"]}},
}})
run.config["api_key"] = S["changed"]
run.summary["secret"] = S["changed"]
run.log({{"loss": 1.0}}, step=0)
run.log({{"loss": 0.5}}, step=1)
while not any(event.name == "environment" for event in chiplog.read(run.dir).records("event")):
    time.sleep(0.01)
run.flush()
raise ConnectionError("cannot reach https://user:" + S["exception url"] + "@host/ with " + S["exception key"])
"""


def test_no_secret_is_written_into_a_run(tmp_path: Path) -> None:
    """Eighteen planted secrets, where they usually come from: grep finds none of them in any file of the run."""
    words = (
        f"--api-key={SECRETS['argv flag']}",
        "--password",
        SECRETS["argv next"],
        f"--remote=https://me:{SECRETS['argv url']}@host/x",
        "--tokenizer=llama",
    )
    with trainer(tmp_path, TRAIN.format(secrets=SECRETS, kept=KEPT), *words) as leaky:
        assert leaky.wait() == 1
        assert "ConnectionError" in leaky.said
        files = [path for path in leaky.run.rglob("*") if path.is_file()]
        assert {path.suffix for path in files} >= {".jsonl", ".json", ".csv"}
        for what, secret in SECRETS.items():
            value = secret.removeprefix("Bearer ")
            words = ["grep", "-rlF", "--", value, str(leaky.run)]
            found = subprocess.run(words, capture_output=True, text=True, check=False)
            assert found.returncode == 1, f"{what}: {found.stdout}"
        assert b"[redacted]" in (leaky.run / "run.json").read_bytes()
        assert b"--tokenizer=llama" in (leaky.run / "run.json").read_bytes()


def test_what_only_looks_like_a_secret_stays(tmp_path: Path) -> None:
    """A Llama config with its tokens and keys, and a git commit of 40 hex digits, are kept as they are."""
    code = f"""
    run = init(config={KEPT!r})
    run.log({{"loss": 1.0}})
    run.finish()
    assert chiplog.read(run.dir).config == {KEPT!r}, chiplog.read(run.dir).config
    """
    with trainer(tmp_path, code) as kept:
        assert kept.wait() == 0, kept.said


def test_files_of_a_run_are_nobody_elses(tmp_path: Path) -> None:
    """Directories are 0700 and files 0600, whatever the umask."""
    code = """
    os.umask(0)
    run = init(sinks="csv,json,jsonl")
    run.log({"x": 1, "picture": chiplog.Image(b"GIF8")})
    run.artifact(sys.argv[0], name="script")
    run.finish()
    """
    with trainer(tmp_path, code) as run:
        assert run.wait() == 0, run.said
        for path in (run.run, *run.run.rglob("*")):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
