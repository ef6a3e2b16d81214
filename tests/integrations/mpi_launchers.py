"""Real launchers of MPI: Open MPI and MPICH from PyPI, each in a folder of its own, and the system's."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Lets root start ranks, and more ranks than there are processors.
_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "MPIR_CVAR_CH4_NETMOD": "ofi",  # UCX takes hosts made of namespaces for one host
    "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",
}
# Runs a command on the other of two hosts that are namespaces; called with the arguments of ssh.
_AGENT = """#!/bin/sh
while [ "$1" != {address} ]; do shift; done
exec {shell} "$@"
"""
REMOTE_SHELL = [sys.executable, str(ROOT / "tests/helpers/remote_shell.py")]
KINDS = ("openmpi", "mpich", "system")


@dataclass(frozen=True)
class Launcher:
    """A program `mpiexec`, and the environment that it needs."""

    kind: str
    mpiexec: str
    env: dict[str, str] = field(default_factory=dict)

    def command(self, ranks: int, rank: list[str], *options: str) -> list[str]:
        """Return a command that starts that many ranks."""
        return [self.mpiexec, "-n", str(ranks), *options, *rank]

    def on_hosts(self, addresses: tuple[str, str], each: int, folder: Path) -> list[str]:
        """Return options that place ranks on two hosts, the second of which runs `REMOTE_SHELL`."""
        agent = folder / "agent"
        agent.write_text(_AGENT.format(address=addresses[1], shell=shlex.join(REMOTE_SHELL)))
        agent.chmod(0o755)
        hosts = ",".join(f"{address}:{each}" for address in addresses)
        if self.kind == "mpich":
            return ["-hosts", hosts, "-launcher", "ssh", "-launcher-exec", str(agent)]
        names = {"openmpi": ["--prtemca", "plm_ssh_agent"], "system": ["--mca", "plm_rsh_agent"]}
        return ["--host", hosts, *names[self.kind], str(agent)]


def find(kind: str, folder: Path) -> Launcher:
    """Return a launcher whose temporary files are in a folder; skip the test where the system has none.

    Open MPI names its own by the launcher's process id, which two containers may both have.
    """
    env = {**_ENVIRONMENT, "TMPDIR": str(folder)}
    if kind == "system":
        # `mpiexec` of this environment would be another one.
        mpiexec = shutil.which("mpiexec", path="/usr/local/bin:/usr/bin:/bin")
        if mpiexec is None:
            pytest.skip("the system has no mpiexec")
        return Launcher(kind, mpiexec, env)
    installed = ROOT / "build/mpi" / kind
    (library,) = installed.glob("lib/libmpi.so.*")
    return Launcher(kind, str(installed / "bin/mpiexec"), {**env, "MPI4PY_LIBMPI": str(library)})
