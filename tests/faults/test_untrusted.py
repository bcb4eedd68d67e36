"""A run directory is untrusted input: whoever reads a run that somebody else made neither hangs nor leaves it."""

from __future__ import annotations

import ast
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chiplog
from chiplog.cli import main
from chiplog.core import settings
from chiplog.core.identity import Identity
from chiplog.core.records import File
from chiplog.sinks import registry
from chiplog.sinks.shared import dotenv
from chiplog.store import layout, manifest
from chiplog.store.journal import lines
from chiplog.store.layout import Segment
from chiplog.store.parts import compaction
from chiplog.store.parts.format import seal
from chiplog.store.runs.summary_cache import SummaryCache
from tests.faults.hostile_runs import command
from tests.support.memory import peak
from tests.support.waiting import wait_for
from tests.views.web.serving import serving

VERBS = ["ls", "show", "doctor", "tail --once", "cat", "report", "compact", "plot", "trace", "export --to csv"]
VERBS += ["watch --once", "sync --to csv --quiet", "sync --to otel --quiet", "compact --prune"]
MINE = ["config.json", "metrics.csv", "metrics.json", "metrics.jsonl", "secret.csv", "trace.pftrace"]
SOURCE = Path(chiplog.__file__).parent
HERE = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{SOURCE.parent}"}


@pytest.fixture
def received(tmp_path: Path) -> Path:
    """A run that somebody else made, beside a good one of our own."""
    for name in ("good", "received"):
        with chiplog.init("p", dir=tmp_path / "runs", id=name, sinks="none") as run:
            for step in range(5):
                run.log({"train/loss": 1.0 / (step + 1)}, step=step)
            run.eval({"accuracy": 0.5}, step=4)
    return tmp_path / "runs" / "p" / "received"


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder of the user's own, which must stay as it is."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in MINE:
        (folder / name).write_text("secret\n")
    yield folder
    assert sorted(os.listdir(folder)) == MINE
    assert {(folder / name).read_text() for name in MINE} == {"secret\n"}


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


PLACES = [
    ["run.json"],
    ["journal/r00000-a01-0000.jsonl"],
    ["journal/r00000-a01-0000.jsonl.zst", "journal/r00000-a02-0000.jsonl.zst", "cursors/csv.json", "relay/r00000-a01.json"],
    ["parts/r00000-a01-0000.points.parquet", "cursors/csv.lease", "cursors/otel.json", "files/metrics.csv", "files/a.png"],
]  # fmt: skip


@pytest.mark.parametrize("put", [_pipe, _device], ids=["pipe", "device"])
def test_nothing_but_files_is_opened(received: Path, put: Callable[[Path], None]) -> None:
    """A pipe or a link to a device in the place of any file hangs no verb, and the good run is listed beside it."""
    compaction.compact(received, Segment(0, 1, 0))
    for folder in ("cursors", "files", "relay"):
        (received / folder).mkdir(exist_ok=True)
    for places in PLACES:
        before = {place: (received / place).read_bytes() for place in places if (received / place).is_file()}
        for place in places:
            put(received / place)
        root = ["--dir", str(received.parents[1])]
        program = "import sys; from tests.faults.test_untrusted import every_verb; every_verb(sys.argv[1])"
        words = [sys.executable, "-c", program, str(received)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=HERE)
        assert done.returncode == 0, (places, done.stderr[-2000:])
        printed, error = command([*root, "ls"])
        assert not error and "good" in printed
        if places in PLACES[:2]:
            assert "damaged" in printed and f"p/received cannot be read: {places[0]}:" in printed, printed
        for place in places:
            (received / place).unlink(missing_ok=True)  # a compaction may have replaced it
            if place in before:
                (received / place).write_bytes(before[place])


def every_verb(run: str) -> None:
    """Call every verb on a run, ask its page for everything and let a relay deliver it, with little memory."""
    import resource

    from chiplog.commands.sync import verb as sync_verb
    from chiplog.sinks.delivery import relay, relay_process
    from tests.faults import hostile_readers, hostile_runs

    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    sync_verb.PATIENCE = 0.3
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"  # nobody
    for verb in VERBS:
        name, *more = verb.split()
        words = ["--dir", str(Path(run).parents[1]), name, *([] if name == "ls" else [run]), *more]
        _, error = command(words)
        assert not error, (verb, error)
    summaries = SummaryCache(Path(run).parents[1])
    summaries.refresh()
    assert len(summaries.entries()) == 2
    findings = hostile_runs.Findings()
    hostile_readers.pages(Path(run), findings, 0)
    assert not findings and findings.requests > 40, findings
    gone = subprocess.Popen(["true"])
    gone.wait()
    patience = relay.Patience(busy=0.3, total=0.0)
    orders = relay.Orders(run, "r00000-a01", gone.pid, 1, {"otel": {}}, str(Path(run).parent), patience=patience)
    relay_process.serve(orders, dict(os.environ))


@pytest.mark.parametrize("link", ["files", "files/plots", "parts", "journal", "cursors"])
def test_nothing_is_written_through_a_link(received: Path, outside: Path, link: str) -> None:
    """Reports, parts and the files of sinks stay inside a run whose folders are links."""
    place = received / link
    if place.is_dir():
        place.rename(received.parent / "moved")
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    for words in (["report", "--pictures", "svg"], ["compact"], ["compact", "--prune"], ["sync", "--to", "csv"]):
        command(["--dir", str(received.parents[1]), words[0], str(received), *words[1:]])


@pytest.mark.parametrize("sink", ["csv", "jsonl", "json", "tensorboard", "perfetto"])
def test_nothing_is_deleted_through_a_link(received: Path, outside: Path, sink: str) -> None:
    """Not by a sink that starts from scratch, nor by one whose cursor names files that it is to cut or remove."""
    if (received / "files").is_dir():
        (received / "files").rename(received.parent / "moved")
    (received / "files").symlink_to(outside)
    (received / "cursors").mkdir(exist_ok=True)
    tables = {"t": {"file": "secret.csv", "size": 0, "rows": 0}}
    for state in (None, {}, {"metrics": {}, "tables": tables}, {"size": 0}, {"size": 3, "empty": True}):
        cursor = {"positions": {"r00000-a01": [0, 0, -1]}, "state": state}
        if state is not None:
            (received / "cursors" / f"{sink}.json").write_bytes(lines.sealed(msgspec.json.encode(cursor)))
        command(["sync", str(received), "--to", sink, "--quiet"])


@pytest.mark.parametrize("place", ["runs/received", "runs/received/files/p", "runs/received/runs/p", "runs/p/received"])
def test_no_run_is_found_inside_a_run(
    received: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A received run with links to runs of the user's own: they are neither listed, nor chosen, nor written."""
    mine = (received.parent / "good").rename(tmp_path / "mine")
    run = tmp_path / "runs" / Path(place).relative_to("runs").parts[0]
    run = run / "received" if run.name == "p" else run
    if run != received:
        received.rename(run)
    link = tmp_path / place / "precious"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(mine)
    before = sorted(mine.rglob("*"))
    monkeypatch.chdir(run)  # where `runs` is the default
    for root in (tmp_path / "runs", run, run.parent, run / "runs", run / "files"):
        assert mine not in [path.resolve() for path in layout.find_runs(root)]
        for words in (["ls"], ["sync", "precious", "--to", "csv", "--quiet"], ["compact"], ["report", "precious"]):
            printed, error = command(["--dir", str(root), *words])
            assert not error and ("precious" not in printed or "no run" in printed or "link" in printed), printed
    assert sorted(mine.rglob("*")) == before


def test_nothing_is_written_into_a_run_that_a_link_leads_to(received: Path) -> None:
    """`files` may be a link to another run of the user's own, which is not the run that is read."""
    mine = received.parent / "good"
    shutil.rmtree(received / "files", ignore_errors=True)
    (received / "files").symlink_to(mine)
    before = sorted(mine.rglob("*"))
    for words in (["sync", "--to", "csv", "--quiet"], ["report", "--only", "report"]):
        command(["--dir", str(received.parents[1]), words[0], str(received), *words[1:]])
    assert sorted(mine.rglob("*")) == before


def test_an_output_that_is_a_link_is_not_followed(received: Path, outside: Path) -> None:
    """Neither is a temporary name that can be guessed."""
    (received / "files").mkdir(exist_ok=True)
    for name in ("report.html", "metrics.csv", "config.json", ".metrics.csv.new", f".report.md.{os.getpid()}"):
        (received / "files" / name).symlink_to(outside / "secret.csv")
    for words in (["report", "--only", "report"], ["sync", "--to", "csv"]):
        command(["--dir", str(received.parents[1]), words[0], str(received), *words[1:]])


def test_links_on_the_way_to_a_run_work(received: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory of runs or a project that the user has linked is read and written as usual."""
    (tmp_path / "linked").symlink_to(tmp_path / "runs")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "p").symlink_to(tmp_path / "runs" / "p")
    for root in ("linked", "other"):
        assert main(["--dir", str(tmp_path / root), "show", "received"]) == 0
        assert main(["--dir", str(tmp_path / root), "report", "received", "--only", "report"]) == 0
        assert main(["--dir", str(tmp_path / root), "compact", "received"]) == 0
    assert "damage" not in capsys.readouterr().out
    assert (received / "files" / "report.md").is_file()


# -- services ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """A server that notes who asks it for something, and with which headers."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"{self.path} {self.headers}")
            self.send_response(200)
            self.end_headers()

        do_GET = do_PUT = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


def _claim(run: Path, service: str, **options: object) -> None:
    """Let a run claim that it is delivered there."""
    (run / "cursors").mkdir(exist_ok=True)
    cursor = {"positions": {}, "state": {}, "service": service, "options": options, "remote": True, "url": "http://x/"}
    (run / "cursors" / f"{service}.json").write_bytes(lines.sealed(msgspec.json.encode(cursor)))


def test_a_received_run_names_no_service(
    received: Path, listener: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sync` contacts nobody unless the user names a service, and then not at the address in the run."""
    address, asked = listener
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2hunter2")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")  # nobody
    _claim(received, "otel", endpoint=address)
    _claim(received, "prometheus", push=address)
    printed, error = command(["sync", str(received), "--quiet"])
    assert not error and "was not made by you at this path" in printed and "--to otel" in printed
    printed, error = command(["--dir", str(received.parents[1]), "sync", "--quiet"])
    assert not error and "none of your runs" in printed
    monkeypatch.setattr("chiplog.commands.sync.verb.PATIENCE", 0.5)
    command(["sync", str(received), "--to", "otel", "--quiet"])
    assert asked == []


def test_the_user_names_the_address(received: Path, listener: tuple[str, list[str]]) -> None:
    """With --set or by the settings; from then on `sync` knows it, for this run at this path."""
    address, asked = listener
    assert main(["sync", str(received), "--to", "otel", "--set", f"endpoint={address}", "--quiet"]) == 0
    assert asked
    assert main(["sync", str(received), "--quiet"]) == 0
    moved = received.rename(received.parent / "moved")
    printed, _ = command(["sync", str(moved), "--quiet"])
    assert "was not made by you at this path" in printed


def test_our_own_run_knows_its_destination(tmp_path: Path, listener: tuple[str, list[str]]) -> None:
    """A run that was left to `sync` is delivered without naming the service again, and its cursor has no address."""
    address, asked = listener
    with chiplog.init("p", dir=tmp_path, id="mine", sinks={"otel": {"endpoint": address}}, mode="offline") as run:
        run.log({"loss": 1.0})
    assert not asked
    assert all(address.encode() not in path.read_bytes() for path in run.dir.rglob("*") if path.is_file())
    assert main(["sync", str(run.dir), "--quiet"]) == 0
    assert asked


def test_no_settings_of_a_place_that_the_run_names(
    received: Path, tmp_path: Path, listener: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the `.env` of the folder that `run.json` calls its own, nor settings inside the run, are read."""
    address, asked = listener
    place = tmp_path / "theirs"
    place.mkdir()
    (place / ".env").write_text(f"MLFLOW_TRACKING_URI={address}\n")
    about = manifest.load(received)
    about.environment["cwd"] = str(place)
    manifest.save(received, about)
    (received / "chiplog.toml").write_text(f'[sinks.otel]\nendpoint = "{address}"\n')
    monkeypatch.chdir(received)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("chiplog.commands.sync.verb.PATIENCE", 0.5)
    for sink in ("otel", "mlflow"):
        command(["sync", str(received), "--to", sink, "--quiet"])
    assert asked == []


@pytest.mark.parametrize("place", [".", "files/deep"])
def test_no_credentials_go_where_a_run_says(
    received: Path, place: str, listener: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever works inside of a run gets no `.env`, no settings and no store of its maker."""
    address, asked = listener
    (received / "files" / "deep" / "wandb").mkdir(parents=True)
    (received / "wandb").mkdir()
    for folder in (received, received / "files" / "deep"):
        (folder / ".env").write_text(f"MLFLOW_TRACKING_URI={address}\nTRACKIO_DIR={folder}\n")
        (folder / "wandb" / "settings").write_text(f"[default]\nbase_url = {address}\n")
        (folder / "chiplog.toml").write_text(f'[sinks.otel]\nendpoint = "{address}"\n')
    monkeypatch.chdir(received / place)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "hunter2hunter2")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("WANDB_API_KEY", "f" * 40)
    monkeypatch.setattr("chiplog.commands.sync.verb.PATIENCE", 0.5)
    assert "MLFLOW_TRACKING_URI" not in dotenv.load(str(Path.cwd()), {})
    opened: list[tuple[str, str]] = []
    monkeypatch.setattr(registry, "open_named", lambda name, _, about, __: opened.append((about.cwd, str(Path.cwd()))))
    for name in ("mlflow", "wandb"):
        command(["sync", str(received), "--to", name, "--quiet"])
    assert opened and {folder for pair in opened for folder in pair} == {str(received.parent)}
    assert asked == [] and Path.cwd() == received / place


@pytest.mark.parametrize("name", [".env", "chiplog.toml", "pyproject.toml"])
def test_files_of_settings_are_regular_and_small(
    received: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe of that name is not waited for, inside of a run or elsewhere, and a huge file is not read."""
    for folder in (received, tmp_path / "elsewhere"):
        folder.mkdir(exist_ok=True)
        for put in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), _sparse):
            put(folder / name)
            assert dotenv.load(str(folder), {}) == {}
            assert settings.load({}, {}, folder) == settings.Settings()
            (folder / name).unlink()


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 36)


def test_matplotlib_is_imported_outside_of_runs(received: Path) -> None:
    """It takes a `matplotlibrc` where it is imported, and waits for one that is a pipe."""
    os.mkfifo(received / "matplotlibrc")
    words = [sys.executable, "-m", "chiplog", "report", ".", "--only", "data,plots,report"]
    done = subprocess.run(words, cwd=received, capture_output=True, text=True, timeout=60, check=False, env=HERE)
    assert done.returncode == 0, done.stderr
    assert any((received / "files").rglob("*.png"))


def test_a_state_names_no_file(received: Path, outside: Path) -> None:
    """A cursor whose tables are files elsewhere, or make no sense, costs a start from scratch and nothing else."""
    up = os.path.relpath(outside, received / "files")
    for file in (f"{up}/secret.csv", str(outside / "secret.csv"), 5, None):
        state = {"metrics": {}, "tables": {"t": {"file": file, "size": 0, "rows": -1}}}
        (received / "cursors").mkdir(exist_ok=True)
        cursor = {"positions": {"r00000-a01": [0, 0, -1]}, "state": state}
        (received / "cursors" / "csv.json").write_bytes(lines.sealed(msgspec.json.encode(cursor)))
        command(["sync", str(received), "--to", "csv", "--quiet"])
    assert (received / "files" / "metrics.csv").read_text().count("\n") >= 5


@pytest.mark.parametrize("kind", ["absolute", "dots", "link", "folder", "second", "pipe"])
def test_no_file_outside_is_sent(received: Path, tmp_path: Path, kind: str) -> None:
    """A `file` record is sent by no sink unless it is a regular file of the run."""
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"secret secret secret")
    (received / "files").mkdir(exist_ok=True)
    path = {"absolute": str(secret), "dots": f"../../../{secret.name}"}.get(kind, f"files/{kind}")
    if kind == "link":
        (received / path).symlink_to(secret)
    elif kind == "folder":
        (received / path).symlink_to(tmp_path)
        path = f"{path}/{secret.name}"
    elif kind == "second":
        os.link(secret, received / path)
    elif kind == "pipe":
        os.mkfifo(received / path)
    seen: list[object] = []

    class Backend:
        def log(self, *_: object, **__: object) -> None: ...
        def log_config(self, *_: object) -> None: ...
        def finish(self) -> None: ...
        def log_image(self, _name: str, path: str, **_: object) -> None:
            seen.append(path)

        def log_artifacts(self, files: dict[str, str]) -> None:
            seen.extend(files.values())

    identity = Identity("p", "r", received, "n", "x", (), 0, attempt=1, config={}, cwd=str(tmp_path), script="")
    records = [File(1, 1, "a", path, "image/png"), File(2, 1, "b", path)]
    (backend,) = registry.open_objects([("mine", Backend())], identity).values()
    for sink in (backend, registry.open_named("tensorboard", {}, identity, {})):
        sink.write(records)
        sink.write([])
        sink.close()
    assert not seen
    files = [one for one in (received / "files").rglob("*") if one.is_file() and not one.is_symlink()]
    assert all(b"secret" not in one.read_bytes() for one in files if one.stat().st_nlink == 1)


# -- small files that are large inside -----------------------------------------------------------------------------------


def test_small_files_that_are_large_inside_are_bounded(received: Path) -> None:
    """Zeros in zstd, a sparse segment and a part of a billion rows take neither memory nor minutes."""
    journal = received / "journal"
    with pa.CompressedOutputStream(str(journal / "r00001-a01-0000.jsonl.zst"), "zstd") as file:
        for _ in range(1 << 10):
            file.write(bytes(1 << 20))
    with (journal / "r00002-a01-0000.jsonl").open("wb") as sparse:
        sparse.truncate(1 << 41)
    (received / "parts").mkdir(exist_ok=True)
    table = pa.table({"seq": pa.array([0] * (1 << 20)), "time": pa.array([0] * (1 << 20))})
    path = received / "parts" / "r00000-a01-0000.clock.parquet"
    with pq.ParquetWriter(str(path), table.schema) as writer:
        for _ in range(20):
            writer.write_table(table)
    with path.open("r+b") as opened:
        seal(opened)
    program = "import sys; from tests.faults.test_untrusted import read_all; read_all(sys.argv[1])"
    words = [sys.executable, "-c", program, str(received)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=HERE)
    assert done.returncode == 0, done.stderr[-2000:]


def read_all(run: str) -> None:
    """Read everything of a run; more than 1 GiB of memory is an error."""
    stored = chiplog.read(run)
    assert len(stored.series("train/loss")) == 5
    assert any("bytes inside" in str(damage) or "line too long" in str(damage) for damage in stored.damage)
    _, error = command(["--dir", str(Path(run).parents[1]), "ls"])
    assert not error, error
    assert peak() < 1024, f"{peak()} MiB"


# -- the list ----------------------------------------------------------------------------------------------------------


def test_a_bad_run_comes_and_goes(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a run cannot be read it is listed as damaged, the others as always; afterwards it is as before."""
    summaries = SummaryCache(received.parents[1])
    summaries.refresh()
    assert {entry.state for entry in summaries.entries()} == {"finished"}
    journal = received / "journal" / "r00000-a01-0000.jsonl"
    data = journal.read_bytes()
    _pipe(journal)
    summaries.refresh()
    states = {entry.id: entry.state for entry in summaries.entries()}
    assert states == {"good": "finished", "received": "damaged"}
    journal.unlink()
    journal.write_bytes(data)
    summaries.refresh()
    assert {entry.state for entry in summaries.entries()} == {"finished"}


def test_the_page_recovers_from_a_bad_run_by_itself(received: Path) -> None:
    """The loop that refreshes the list of the server looks again, once the run can be read or is gone."""

    def listed() -> dict[str, str]:
        return {run["id"]: run["state"] for run in served.get("runs")["runs"]}

    journal = received / "journal" / "r00000-a01-0000.jsonl"
    data = journal.read_bytes()
    with serving(received.parents[1]) as served:
        for gone in (False, True):
            wait_for(lambda: listed() == {"good": "finished", "received": "finished"}, 20, "both runs")
            _pipe(journal)
            wait_for(lambda: listed() == {"good": "finished", "received": "damaged"}, 20, "the bad run")
            if gone:
                shutil.rmtree(received)
            else:
                journal.unlink()
                journal.write_bytes(data)
        wait_for(lambda: listed() == {"good": "finished"}, 20, "only the good run")


# -- the one place -----------------------------------------------------------------------------------------------------

RAW = {"read_text", "read_bytes", "write_text", "write_bytes", "FileIO", "copyfile", "rglob", "iterdir", "symlink_to"}
RAW |= {"unlink", "rename", "glob", "rmtree", "chmod", "copyfileobj", "move", "scandir", "listdir", "walk", "utime"}
RAW |= {
    "link",
    "hardlink_to",
    "truncate",
    "ParquetWriter",
    "ParquetFile",
    "read_schema",
    "read_table",
    "OSFile",
    "memory_map",
}
# Who opens something else than a file of a run, and what; everything inside a run goes through `core/files`.
ELSEWHERE = {
    "core/files/": "the one place",
    "core/paths.py": "permissions of folders",
    "core/values/pictures.py": "a picture that the user logs",
    "core/engine/attachments.py": "a file that the user logs; its copy has a new name",
    "cli.py": "our own sources",
    "commands/run/stand_in.py": "our own sources",
    "compat/": "runs that the training process itself has just made, and the user's files",
    "demo/": "our own text",
    "commands/ui.py": "the user's token",
    "commands/compact/verb.py": "a lock of the user's own",
    "commands/doctor.py": "mounts",
    "integrations/": "files of the trainer, in its process",
    "frontends/": "runs that the training process itself has just made, and the user's files",
    "runtime/": "the machine, and runs that the training process makes",
    "commands/sync/delivery_process.py": "a temporary folder of our own",
    "sinks/delivery/waiting_relay.py": "the user's state directory",
    "sinks/registry.py": "our own sources",
    "store/foreign/conversion.py": "runs of the user's cache or directory, which it has just made",
    "store/foreign/cached_runs.py": "the user's cache",
    "store/foreign/protocol.py": "the names in a folder that the user names",
    "store/foreign/run_writer.py": "runs of the user's cache or directory, which it has just made",
    "store/foreign/sqlite_file.py": "a temporary folder of our own",
    "store/journal/file_systems.py": "a new file with a name of its own, and mounts",
    "store/journal/segment_file.py": "new segments of a live run, opened exclusively",
    "store/layout.py": "the user's directory of runs",
    "store/parts/part_cache.py": "the user's cache",
    "store/runs/liveness.py": "/proc",
    "store/runs/problems.py": "the names in the folder of a run, to say which of them are odd",
    "views/trace/profilers.py": "traces that the user names",
    "views/web/token_file.py": "a private file of our own",
    "views/web/asset_bundle.py": "our own assets",
}
# Writes to the path that `replacing` or `new_beside` has just made.
TEMPORARY = {"temporary", "aside"}


def test_every_file_of_a_run_is_opened_in_one_place() -> None:
    """A new raw `open` or `read_text` in a module that reads runs fails here: use `chiplog.core.files`."""
    raw = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(tuple(ELSEWHERE)):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _opens(node):
                raw.append(f"{name}:{node.lineno}: {ast.unparse(node)[:80]}")
    assert raw == []


def _opens(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in ("open", "FileIO")
    if not isinstance(function, ast.Attribute):
        return False
    owner = ast.unparse(function.value)
    if owner in TEMPORARY or owner.startswith(("reading", "writing")):
        return False
    if function.attr == "walk" and owner != "os":
        return False
    what = ast.unparse(call.args[0]) if call.args else ""
    if what.startswith(("reading.", "arrow.open_native", "pa.OSFile(reading.")) or what.endswith(".fileno()"):
        return False  # what is open already
    if any(what in (name, f"str({name})") for name in TEMPORARY):
        return False
    if function.attr == "open":
        return owner in ("os", "io", "Path") or owner.endswith(("path", "file", "_file)")) or " / " in owner
    if function.attr == "rename" and not call.args:
        return False  # columns of a data frame
    return function.attr in RAW
