"""A real SLURM of one node on this machine, in a folder of its own: munged, slurmctld and slurmd, with their own ports.

Needs root, and Debian's packages slurm-wlm and munge. Nothing of an installed SLURM is touched.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.dask_processes import wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue")
NODE = "node0"
SETTINGS = """\
ClusterName=xpipe
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=1
KillWait=2
ReturnToService=2
NodeName={name} NodeAddr=127.0.0.1 NodeHostname={host} CPUs=4 RealMemory=4000
PartitionName=main Nodes={name} Default=YES MaxTime=INFINITE
"""


def missing() -> str:
    """Why no SLURM can be started here; "" if one can."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    absent = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    return "" if not absent and os.getuid() == 0 else f"needs root, and {' '.join(absent) or 'SLURM'}: make test-slurm"


def free_ports(count: int) -> list[int]:
    """So many free ports."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class Slurm:
    """A running SLURM. environment: what its commands need."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}

    def command(self, *words: str) -> str:
        """What a command of SLURM prints."""
        found = subprocess.run(words, env=os.environ | self.environment, capture_output=True, text=True, check=False)
        return found.stdout if found.returncode == 0 else ""

    def jobs(self, states: str = "PENDING,RUNNING,COMPLETING") -> list[str]:
        """The numbers of jobs in these states; by default those that have not ended."""
        return self.command("squeue", "--noheader", f"--states={states}", "--format=%i").split()


@contextlib.contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    """Start SLURM, wait until its node takes jobs, and end it with all its jobs."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    controller, node = free_ports(2)
    host = socket.gethostname().partition(".")[0]
    text = SETTINGS.format(folder=folder, host=host, name=NODE, controller=controller, node=node)
    (folder / "slurm.conf").write_text(text)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    slurm = Slurm(folder)
    path = f"{os.environ['PATH']}:/usr/sbin"
    munged = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock"]
    munged += [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")]
    commands = [munged, ["slurmctld", "-D"], ["slurmd", "-D", "-N", NODE]]
    with contextlib.ExitStack() as stack, open(folder / "output.log", "w") as log:
        for command in commands:
            program = shutil.which(command[0], path=path)
            assert program is not None
            environment = {**os.environ, **slurm.environment, "PATH": path}
            process = subprocess.Popen([program, *command[1:]], env=environment, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            if command is munged:
                wait_for((folder / "munge.sock").exists, "munged")
        stack.callback(lambda: wait_for(lambda: not slurm.jobs(), "the end of all jobs"))
        stack.callback(slurm.command, "scancel", "--user=root", "--full")
        wait_for(lambda: slurm.command("sinfo", "--noheader", "--format=%t").strip() == "idle", "a node of SLURM")
        yield slurm
