"""A Slurm of one machine on loopback: started for a test, and stopped by its process ids."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import free_port

SETTINGS = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
ReturnToService=2
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/control.pid
SlurmdPidFile={folder}/node.pid
SlurmctldLogFile={folder}/control.log
SlurmdLogFile={folder}/node.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES OverSubscribe=FORCE:4 MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Yields the environment in which `srun` starts processes here. `folder` must have a short path."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    host = os.uname().nodename.partition(".")[0]
    settings = folder / "slurm.conf"
    settings.write_text(
        SETTINGS.format(host=host, folder=folder, control=free_port(), node=free_port(), cpus=os.cpu_count() or 2)
    )
    environ = {**os.environ, "SLURM_CONF": str(settings)}
    munge = [
        f"--{word}={folder}/munge.{word.partition('-')[0]}" for word in ("socket", "pid-file", "log-file", "seed-file")
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for words in (
            ["munged", "--foreground", "--force", f"--key-file={key}", *munge],
            ["slurmctld", "-D", "-f", str(settings)],
            ["slurmd", "-D", "-N", host, "-f", str(settings)],
        ):
            path = f"{environ['PATH']}:/usr/sbin:/sbin"
            with (folder / f"{words[0]}.out").open("wb") as said:
                started.append(subprocess.Popen(words, env={**environ, "PATH": path}, stdout=said, stderr=said))
            if words[0] == "munged":
                _wait_for((folder / "munge.socket").exists, folder)
        _wait_for(lambda: _is_idle(environ), folder)
        yield environ
        _wait_for(lambda: not list((folder / "spool").glob(f"{host}_*")), folder)  # the last step has been put away
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_idle(environ: dict[str, str]) -> bool:
    done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environ, capture_output=True, text=True, check=False)
    return done.stdout.strip() == "idle"


def _wait_for(condition: Callable[[], object], folder: Path) -> None:
    until = time.monotonic() + 40
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("\n".join(file.read_text(errors="replace")[-2000:] for file in folder.glob("*.log")))
        time.sleep(0.05)
