"""Everything at once, for long: training under random faults, with an account of every record."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

import chiplog
from tests.support.waiting import wait_for

from .harness import Trainer, count
from .ledger import Account, Ledger

SECONDS = count(20, 3600)
THREADS = 4
BURST = 60_000  # rows, twice what the tail takes

pytestmark = pytest.mark.timeout(SECONDS + 300)

# 200 rows a second from four threads. The main thread does what it is told to by files, and says how it goes in one.
TRAIN = f"""
import json
ROWS = [-1] * {THREADS + 1}

def log(thread):
    n = ROWS[thread] = ROWS[thread] + 1
    run.log({{f"t{{thread}}": n, "x": n / 7}}, step=n)
    os.pwrite(_ack, b"%020d" % n, 20 * thread)

class Odd:
    '''A sink that hangs or raises for as long as it is told to.'''
    rows = 0
    def write(self, batch):
        while os.path.exists("orders/hang"):
            time.sleep(0.05)
        if os.path.exists("orders/raise"):
            raise OSError("told to")
        self.rows += sum(type(record).__name__ == "Step" for record in batch)
    def close(self):
        with open("delivered", "w") as file:
            file.write(str(self.rows))

def give_up_root():
    '''Rights mean nothing to root.'''
    while not any(event.name == "environment" for event in chiplog.read(run.dir).records("event")):
        time.sleep(0.01)
    for folder, _, files in (*os.walk(ROOT), *os.walk(".")):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            os.chown(name, 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)

def fork(killed):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        run.log({{"child": 1}}, step=0)
        run.finish()
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == (-9 if killed else 7), code

def burst():
    for _ in range({BURST}):
        log({THREADS})

def work(thread):
    while not stop.is_set():
        log(thread)
        time.sleep(1 / 50)

run = init(sinks=["jsonl", Odd()] if sys.argv[3] == "long" else "none")
if sys.argv[3] == "long" and os.geteuid() == 0:
    give_up_root()
stop = threading.Event()
workers = [threading.Thread(target=work, args=(thread,)) for thread in range({THREADS})]
for one in workers: one.start()
DO = {{"fork": lambda: fork(False), "fork and kill": lambda: fork(True), "burst": burst, "end": stop.set}}
while not stop.is_set():
    for order in os.listdir("orders"):
        if order in DO:
            DO[order]()
            os.unlink("orders/" + order)
    with open("health.new", "w") as file:
        json.dump({{"at": time.monotonic(), **run.health()["journal"]}}, file)
    os.replace("health.new", "health")
    time.sleep(0.05)
for one in workers: one.join()
"""


class Sample(NamedTuple):
    """What a process takes."""

    memory: float  # MiB
    files: int
    threads: int


class Life:
    """One training process with its folder of orders, and the account of what it logs."""

    def __init__(self, process: Trainer, folder: Path, ledger: Ledger) -> None:
        self.process, self.folder, self.ledger = process, folder, ledger

    def tell(self, order: str) -> None:
        """Give an order, and wait until it is done."""
        self.order(order)
        wait_for(lambda: not (self.folder / "orders" / order).exists() or self.dead, 60, order)
        self.check_alive()

    def order(self, order: str) -> None:
        (self.folder / "orders" / order).touch()

    def take_back(self, order: str) -> None:
        (self.folder / "orders" / order).unlink()

    @property
    def dead(self) -> bool:
        return self.process.process.poll() is not None

    def check_alive(self) -> None:
        assert not self.dead, f"the trainer ended; it said:\n{self.process.said}"

    @property
    def acked(self) -> list[int]:
        """The last row that each thread acknowledged."""
        data = (self.folder / "ack").read_bytes() if (self.folder / "ack").exists() else b""
        slots = [data[20 * thread : 20 * thread + 20].strip(b"\0") for thread in range(THREADS + 1)]
        return [int(slot or b"-1") for slot in slots]

    @property
    def account(self) -> Account:
        """Of the newest attempt, which is this one."""
        self.ledger.read()
        return self.ledger.accounts[max(self.ledger.accounts)]

    def health(self) -> dict[str, Any]:
        """What it says of itself, once it says something new."""
        now = time.monotonic()
        path = self.folder / "health"

        def newer() -> Any:
            found = json.loads(path.read_bytes()) if path.exists() else {"at": 0}
            return found if found["at"] > now else self.dead

        found = wait_for(newer, 60, "a word of the trainer")
        self.check_alive()
        return dict(found)

    def settle(self) -> None:
        """Wait until its disk takes everything again."""
        wait_for(lambda: self.health()["waiting"] == 0 and not self.health()["trouble"], 60, self.process.said)

    def sample(self) -> Sample:
        proc = Path(f"/proc/{self.process.process.pid}")
        pages = int((proc / "statm").read_text().split()[1])
        memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        return Sample(memory, len(os.listdir(proc / "fd")), len(os.listdir(proc / "task")))


def begin(folder: Path, disk: Path, ledger: Ledger, kind: str) -> Life:
    (folder / "orders").mkdir(parents=True)
    life = Life(Trainer(folder, TRAIN, kind, root=disk), folder, ledger)
    wait_for(lambda: min(life.acked[:THREADS]) >= 0 or life.dead, 60)
    life.check_alive()
    return life


@contextmanager
def memory_disk(folder: Path) -> Iterator[Path]:
    """A file system of our own, which can be made too small."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tmpfs needs root and mount(8)")
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def resize(disk: Path, size: int) -> bool:
    words = ["mount", "-o", f"remount,size={size}", str(disk)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def fill(disk: Path) -> None:
    """Leave no room on a disk; its users may take what is left of it meanwhile."""

    def too_small() -> bool:
        found = os.statvfs(disk)
        return resize(disk, (found.f_blocks - found.f_bfree) * found.f_frsize)

    wait_for(too_small, 10)


def chiplog_command(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "chiplog", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def check_live(life: Life) -> None:
    """What it acknowledged so far is there, or counted as dropped."""
    acked = life.acked

    def settled() -> bool:
        return life.account.absent(acked) <= life.health()["dropped"]

    wait_for(settled, 60, f"{life.account.absent(acked)} of {acked} are missing")
    life.account.check_order()


class Soak:
    """The faults, each of which is over when its method returns."""

    def __init__(self, chance: random.Random, long: Life, disk: Path, victims: Callable[[], Life]) -> None:
        self.chance, self.long, self.disk = chance, long, disk
        self._victims = victims
        self.victim = victims()
        self.stored = chiplog.read(long.process.run)
        self.injected: Counter[str] = Counter()
        self._began = time.monotonic()

    def hold(self, longest: float = 1.0) -> None:
        time.sleep(self.chance.uniform(0.1, longest))

    def stopped(self) -> None:
        for life in (self.long, self.victim):
            life.process.send(signal.SIGSTOP)
        self.hold(2)
        for life in (self.long, self.victim):
            life.process.send(signal.SIGCONT)

    def disk_full(self) -> None:
        fill(self.disk)
        self.hold(3)
        resize(self.disk, 4 << 30)

    def disk_full_and_flooded(self) -> None:
        before = self.long.health()["dropped"]
        fill(self.disk)
        wait_for(lambda: self.long.health()["trouble"], 30)
        self.long.tell("burst")
        resize(self.disk, 4 << 30)
        self.long.settle()
        assert self.long.health()["dropped"] > before

    def renamed(self) -> None:
        project = self.long.process.run.parent
        project.rename(project.with_name("moved"))
        self.hold(count(1, 15))
        project.with_name("moved").rename(project)

    def rights_taken(self) -> None:
        folders = [self.long.process.run / "journal", self.long.process.run, self.long.process.run.parent]
        for folder in folders:
            folder.chmod(0o500)
        self.hold(2)
        for folder in folders:
            folder.chmod(0o700)

    def forked(self) -> None:
        self.chance.choice([self.long, self.victim]).tell(self.chance.choice(["fork", "fork and kill"]))

    def sink_raises(self) -> None:
        self.long.order("raise")
        self.meanwhile()
        self.long.take_back("raise")

    def sink_hangs(self) -> None:
        self.long.order("hang")
        self.meanwhile()
        self.long.take_back("hang")

    def meanwhile(self) -> None:
        """A sink that fails beside another fault."""
        self.hold()
        faults = [self.stopped, self.disk_full, self.renamed, self.rights_taken, self.forked, self.killed]
        self.chance.choice(faults)()

    def looked_at(self) -> None:
        """By a reader that lives as long as the run."""
        acked = self.long.acked
        found = self.stored.series("t0").exact
        assert self.stored.state == "running"
        assert found == sorted(set(found))
        assert acked[0] + 1 - len(found) <= self.long.health()["dropped"] + self.long.health()["waiting"]

    def listed(self) -> None:
        chiplog_command("ls", "--dir", str(self.long.process.dir))

    def compacted(self) -> None:
        chiplog_command("compact", "--dir", str(self.victim.process.dir), "--quiet", "run")
        chiplog_command("compact", "--dir", str(self.long.process.dir), "--quiet", "run")

    def killed(self) -> None:
        """The victim, with all it has started; then it is resumed."""
        self.end()
        self.victim = self._victims()
        assert chiplog.read(self.victim.process.run).state == "running"

    def end(self) -> None:
        self.victim.process.kill_tree()
        acked, account = self.victim.acked, self.victim.account
        assert account.absent(acked) == 0, f"{account.absent(acked)} acknowledged rows of {acked} are lost"
        account.check_nothing_invented(acked)
        account.check_order()
        stored = chiplog.read(self.victim.process.run)
        assert stored.state == "killed"
        assert len(stored.attempts) == len(self.victim.ledger.accounts)

    def inject(self, fault: Callable[[], None]) -> None:
        self.injected[fault.__name__] += 1
        print(f"{time.monotonic() - self._began:8.1f} s  {fault.__name__}", flush=True)
        fault()
        self.long.settle()
        check_live(self.long)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that others may pass through, unlike pytest's own."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def test_training_survives_everything_at_once(place: Path) -> None:
    """Faults of all kinds at random: nothing acknowledged is lost, and nothing but counted gaps is missing.

    One trainer is never killed and suffers the rest; its memory, files and threads do not grow. The other is killed
    and resumed again and again.
    """
    seed = time.time_ns()
    print("seed", seed)
    with ExitStack() as stack:
        disk, other = (stack.enter_context(memory_disk(place / name)) for name in ("small", "other"))
        births = iter(range(10**6))
        ledger = Ledger(other / "runs" / "faults" / "run")

        def victims() -> Life:
            victim = begin(place / f"victim-{next(births)}", other, ledger, "short")
            stack.callback(victim.process.kill_tree)
            return victim

        long = begin(place / "long", disk, Ledger(disk / "runs" / "faults" / "run"), "long")
        stack.callback(long.process.kill_tree)
        soak = Soak(random.Random(seed), long, disk, victims)
        samples = endure(soak)
        soak.end()
        long.tell("end")
        assert long.process.wait() == 0, long.process.said
        check_end(long)
        assert {one.state for one in chiplog.read(ledger.run).attempts} == {"killed"}
        check_growth(samples)
        report = {
            "injected": dict(soak.injected),
            "rows": long.account.kept,
            "dropped": long.account.holes,
            "victims": sum(account.kept for account in ledger.accounts.values()),
            "attempts": len(ledger.accounts),
            "first": samples[0],
            "last": samples[-1],
            "most": max(samples),
        }
        print(json.dumps(report))


def endure(soak: Soak) -> list[Sample]:
    """Every fault once, which is the warm-up, then at random; what the trainer took after each of these."""
    faults = [
        soak.looked_at, soak.stopped, soak.disk_full_and_flooded, soak.killed, soak.renamed, soak.rights_taken,
        soak.forked, soak.sink_raises, soak.sink_hangs, soak.disk_full, soak.listed, soak.compacted,
    ]  # fmt: skip
    until = time.monotonic() + SECONDS
    for fault in faults:
        soak.inject(fault)
    samples = [soak.long.sample()]
    while time.monotonic() < until:
        [fault] = soak.chance.choices(faults, [0.2 if fault == soak.disk_full_and_flooded else 1 for fault in faults])
        soak.inject(fault)
        samples.append(soak.long.sample())
    return samples


def check_end(long: Life) -> None:
    """The run has ended well; its sinks have everything the journal has, once, and the gaps are counted."""
    account = long.account
    assert account.finish is not None
    assert account.finish["state"] == "finished"
    assert account.holes == account.finish.get("missing", 0) > 0
    assert account.absent(long.acked) <= account.holes
    account.check_nothing_invented(long.acked)
    account.check_order()
    stored = chiplog.read(long.process.run)
    assert stored.state == "finished"
    assert sum(last - first + 1 for first, last in stored.missing["r00000-a01"]) == account.holes
    assert int((long.folder / "delivered").read_text()) == account.kept
    written = Counter(
        json.loads(line)["seq"] for line in (long.process.run / "files" / "metrics.jsonl").read_bytes().splitlines()
    )
    assert max(written.values()) == 1
    assert len(written) == account.seen.count(1)


def check_growth(samples: list[Sample]) -> None:
    """After the warm-up a trainer takes no more memory, files and threads than before."""
    first = samples[0]
    later = samples[len(samples) // 2 :]
    assert max(sample.files for sample in later) <= first.files + 4
    assert max(sample.threads for sample in later) <= first.threads
    early, late = (sorted(sample.memory for sample in part) for part in (samples[: len(samples) // 2 + 1], later))
    assert late[len(late) // 2] <= early[len(early) // 2] + 16, (early, late)
