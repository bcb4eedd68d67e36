"""Secrets that come along in a config, on a command line, in a URL or in an exception."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from tests.support import packages

from .harness import Trainer, trainer

# Made up for this test; none of them opens anything.
LETTERS = "AbCdEfGhIjKlMnOpQrStUvWxYz012345"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0."
SECRETS = {
    "wandb": "0123456789abcdef0123456789abcdef01234567",
    "huggingface": "hf_" + LETTERS,
    "openai": "sk-" + "proj-abcdefghijklmnopqrstuvwxyz0123",
    "github": "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "aws": "AKIA" + "ABCDEFGHIJKLMNOP",
    "jwt": JWT + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "password": "correct-horse-battery",
    "nested": "staple-of-a-nested-list",
    "cookie": "session=monster",
    "dsn": "not-a-url-but-secret",
    "url": "hunter2-in-a-url",
    "changed": "set-after-the-start",
    "bearer": "Bearer abcdef0123456789",
    "authorization": "Token-of-no-known-shape",
    "dataclass": "kept-in-a-dataclass",
    "namespace": "kept-in-a-namespace",
    "repr": "said-by-a-repr",
    "bytes": "hf_bytes" + LETTERS,
    "query": "in-the-query-of-a-url",
    "presigned": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "slack": "T00000000/B00000000/abcdefghijklmnopqrstuvwx",
    "private key": "MIIEowIBAAKCAQEAvery-private",
    "argv flag": "swordfish-argv-flag",
    "argv next": "swordfish-argv-next",
    "argv dash": "-swordfish-argv-dash",
    "argv header": "swordfish-argv-header",
    "argv proxy": "swordfish-argv-proxy",
    "argv key header": "swordfish-argv-key-header",
    "argv url": "hunter3-on-the-command-line",
    "argv variable": "swordfish-argv-variable",
    "argv json": "swordfish-argv-json",
    "argv bare": "glpat-" + "abcdefghij0123456789",
    "environment": "swordfish-environment",
    "environment kept": "hunter5-in-a-variable-that-is-kept",
    "git remote": "hunter6-in-a-remote",
    "exception url": "hunter4-in-an-exception",
    "exception key": "sk-" + "live-in-an-exception-0123456789",
    "exception word": "swordfish-in-an-exception",
    "name": "hf_name" + LETTERS,
    "tag": "ghp_tag" + LETTERS,
    "text": "sk-" + "text-0123456789-0123456789",
    "media": "hf_media" + LETTERS,
    "event": JWT + "event-jNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "table": "xoxb-" + "0123456789-abcdefghij",
    "alert": "hunter7-in-an-alert",
    "span": "AIza" + "SyA0123456789abcdefghijklmnopqrstuv",
    "caption": "github_pat_" + LETTERS,
    "printed": "hf_printed" + LETTERS,
    "printed name": "swordfish-that-was-printed",
    "printed url": "hunter8-in-a-printed-url",
    "printed pieces": "sk-" + "printed-in-pieces-0123456789",
    "printed key": "MIIEowIBAAKCAQEAprinted-on-a-line-of-its-own",
    "printed bytes": "ghp_bytes" + LETTERS,
    "printed long": "hf_behind" + LETTERS,
    "printed error": "glpat-" + "printed0123456789ab",
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
    "source": "hf_datasets",
    "library": "sk-learn-intelex",
}

TRAIN = """
import argparse, dataclasses
from chiplog.sinks.console.sink import Console

S, KEPT = {secrets!r}, {kept!r}

@dataclasses.dataclass
class Login:
    user: str
    api_key: str

class Client:
    def __repr__(self):
        return "Client(host='x', api_key='" + S["repr"] + "')"

run = init(capture=True, sinks=["csv", "json", "jsonl", Console(open("console.txt", "w"), environ={{}})], name="try " + S["name"],
           tags=["one", S["tag"]], config={{
    **KEPT,
    "WANDB_API_KEY": S["wandb"],
    "hub": {{"token": S["huggingface"], "list": [S["openai"], {{"deep": S["github"]}}]}},
    "storage": {{"access_key": S["aws"], "auth": S["jwt"]}},
    "db_password": S["password"],
    "credentials": [S["nested"], {{"any": S["nested"]}}],
    "Cookie": S["cookie"],
    "sentry_dsn": S["dsn"],
    "data": "s3://user:" + S["url"] + "@bucket/path",
    "headers": {{"authorization": S["authorization"], "x": S["bearer"]}},
    "login": Login("me", S["dataclass"]),
    "args": argparse.Namespace(lr=1, auth_token=S["namespace"]),
    "client": Client(),
    "raw": S["bytes"].encode(),
    "feed": ["https://host/x?page=1&api_key=" + S["query"] + "&more=1"],
    "blob": "https://host/x?X-Amz-Signature=" + S["presigned"],
    "hook": "https://hooks.slack.com/services/" + S["slack"],
    "pem": "-----BEGIN RSA PRIVATE KEY-----\\n" + S["private key"],
}})
run.config["api_key"] = S["changed"]
run.summary["secret"] = S["changed"]
run.log({{"loss": 1.0, "said": "it was " + S["text"]}}, step=0)
run.log({{"loss": 0.5, "sample": chiplog.Text("and " + S["media"] + " too")}}, step=1)
run.log({{"picture": chiplog.Image(b"GIF8", caption=S["caption"])}}, step=1)
run.event("request", headers=[{{"x": "Bearer " + S["event"]}}], token="kept because it is data")
run.table("calls", [{{"token": "the", "reply": "key=" + S["table"]}}])
run.alert("trouble at https://me:" + S["alert"] + "@host", text="https://me:" + S["alert"] + "@host",
          seen="https://me:" + S["alert"] + "@host")
with run.span("call", tags={{"key": S["span"]}}):
    pass
print("logged in with", S["printed"], "and", {{"api_key": S["printed name"]}}, "but password=" + S["printed name"])
print("cloning https://me:" + S["printed url"] + "@host/x?token=" + S["printed url"])
for piece in S["printed pieces"]:
    print(piece, end="")
print("\\n-----BEGIN PRIVATE KEY-----", S["printed key"], "-----END PRIVATE KEY-----", "kept on the console", sep="\\n")
sys.stdout.buffer.write(b"Authorization: Bearer " + S["printed bytes"].encode() + b"\\n")
print("x" * 8180, S["printed long"], "y" * 2000)
print("\\r" + S["printed error"], file=sys.stderr, end="\\r")
while not any(event.name == "environment" for event in chiplog.read(run.dir).records("event")):
    time.sleep(0.01)
run.flush()
raise ConnectionError("cannot reach https://user:" + S["exception url"] + "@host/ with " + S["exception key"]
                      + " and password=" + S["exception word"])
"""


def said(path: Path) -> bytes:
    """Every byte of a file, and of a Parquet file what its pages say."""
    data = path.read_bytes()
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        data += repr((table.to_pydict(), table.schema.metadata)).encode()
    return data


@contextmanager
def leaky(folder: Path) -> Iterator[Trainer]:
    """A run that has met all the secrets, and died of the last ones."""
    remote = f"https://me:{SECRETS['git remote']}@host/repository.git"
    for git in (["init"], ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "--allow-empty", "-m", "x"],
                ["remote", "add", "origin", remote]):  # fmt: skip
        subprocess.run(["git", "-C", str(folder), *git], check=True, capture_output=True)
    words = (
        f"--api-key={SECRETS['argv flag']}",
        "--password",
        SECRETS["argv next"],
        "--password",
        SECRETS["argv dash"],
        "-H",
        f"Authorization: Custom {SECRETS['argv header']}",
        f"--header=Proxy-Authorization: {SECRETS['argv proxy']}",
        "-H",
        f"X-Api-Key: {SECRETS['argv key header']}",
        f"--remote=https://me:{SECRETS['argv url']}@host/x",
        f"DB_PASSWORD={SECRETS['argv variable']}",
        json.dumps({"HF_TOKEN": SECRETS["argv json"]}),
        SECRETS["argv bare"],
        "--tokenizer=llama",
    )
    environ = {
        "MY_API_KEY": SECRETS["environment"],
        "NCCL_PROXY": f"http://me:{SECRETS['environment kept']}@host",
        "NCCL_DEBUG": "kept",
    }
    with trainer(folder, TRAIN.format(secrets=SECRETS, kept=KEPT), *words, env=environ) as process:
        assert process.wait() == 1
        assert "ConnectionError" in process.said
        yield process


def leaks(seen: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Which secret is where."""
    assert len(SECRETS) >= 51
    return [
        (what, name)
        for what, secret in SECRETS.items()
        for name, data in seen.items()
        if secret.removeprefix("Bearer ").encode() in data
    ]


def test_no_secret_is_written_into_a_run(tmp_path: Path) -> None:
    """51 planted secrets, where they usually come from: none is in any file of the run, in any export or on a screen."""
    with leaky(tmp_path) as process:
        seen = {str(path.relative_to(process.run)): said(path) for path in process.run.rglob("*") if path.is_file()}
        assert {Path(name).suffix for name in seen} >= {".jsonl", ".json", ".csv"}
        for verb in (["compact"], ["show"], ["cat"], ["doctor"], ["tail", "--once", "--console", "-n", "99"], *(["export", "--to", to] for to in ("csv", "json", "parquet"))):  # fmt: skip
            seen[" ".join(verb)] = chiplog_says(tmp_path, *verb, str(process.run))
    for path in (*process.run.rglob("*.parquet"), *tmp_path.glob("run.*"), tmp_path / "console.txt"):
        seen[path.name] = said(path)
    assert {"run.csv", "run.json", "run.parquet"} <= seen.keys()
    assert len([name for name in seen if name.endswith(".parquet")]) == 5
    assert not leaks(seen)
    for kept in (b"[redacted]", b"--tokenizer=llama", b"NCCL_DEBUG", b"hf_datasets"):
        assert kept in seen["run.json"]
    journal = b"".join(data for name, data in seen.items() if name.startswith("journal/"))
    for kept in (
        b"it was [redacted]",
        b"kept because it is data",
        b'"token":"the"',
        b"repository.git",
        b"trouble at",
        b"kept on the console",
    ):
        assert kept in journal, kept


def test_no_secret_is_in_a_view_of_a_run(tmp_path: Path) -> None:
    """The same run as a report, a comparison, a trace, a page that opens from disk, and on the screen of `watch`."""
    with leaky(tmp_path) as process:
        run, there = str(process.run), tmp_path / "views"
        there.mkdir()
        again = shutil.copytree(process.run, process.run.with_name("again"))
        seen = {
            verb[0]: chiplog_says(tmp_path, *verb)
            for verb in (
                ["report", run, "-o", str(there / "report")],
                ["compare", run, str(again)],
                ["trace", run, "-o", str(there / "trace.pftrace")],
                ["ui", str(process.run.parent.parent), "--export", str(there / "page")],
                ["watch", run, "--once"],
                ["plot", run, "loss"],
            )
        }
    files = {str(path.relative_to(there)): said(path) for path in there.rglob("*") if path.is_file()}
    assert {Path(name).suffix for name in files} >= {".md", ".html", ".png", ".pftrace", ".js"}
    assert b"trouble at" in files["report/report.html"]
    assert not leaks(seen | files)


def test_no_secret_reaches_a_service(tmp_path: Path) -> None:
    """The same run brought to five services: none of their files has one. Aim is left out where it has no wheel."""
    marks = {
        "tensorboard": ".tfevents",
        "wandb": ".wandb",
        "mlflow": "mlflow.db",
        "aim": "/.aim/",
        "trackio": "/trackio/",
    }
    marks = {name: mark for name, mark in marks.items() if not packages.lacks(name)}
    there = tmp_path / "services"
    there.mkdir()
    environ = {
        "HOME": str(there),
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(there),
        "MLFLOW_TRACKING_URI": f"sqlite:///{there}/mlflow.db",
        "AIM_REPO": str(there),
        "TRACKIO_DIR": str(there / "trackio"),
    }
    with leaky(tmp_path) as process:
        for sink in marks:
            words = chiplog_says(there, "sync", str(process.run), "--to", sink, env=environ)
            ends = (b"complete", b"delivered", b"up to date", b"1 record was rejected (Aim cannot read the image")
            assert any(end in words for end in ends), words
        files = {str(path): said(path) for path in (*there.rglob("*"), *process.run.rglob("*")) if path.is_file()}
    for mark in marks.values():
        assert any(b"[redacted]" in data for name, data in files.items() if mark in name), mark
    assert not leaks(files)


def chiplog_says(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "chiplog", *words],
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode in (0, 1) or b"rejected" in done.stdout, done.stderr
    return done.stdout + done.stderr


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
