"""What is built: the version of the package, and the Pythons and machines of its wheels."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

__all__ = ["GLIBC", "MACHINES", "PYTHONS", "ROOT", "Target", "targets", "version"]

ROOT = Path(__file__).parents[1]
GLIBC = (2, 28)  # that of RHEL 8, Debian 10 and Ubuntu 18.10; a wheel runs with this and newer ones
MACHINES = ("x86_64", "aarch64")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")


@dataclass(frozen=True)
class Target:
    """A version of Python, with "t" if it is free-threaded, on a machine."""

    python: str
    machine: str

    @property
    def abi(self) -> str:
        return f"cp{self.python.replace('.', '')}"

    @property
    def name(self) -> str:
        """The name that a user of the make targets gives it, such as cp314t-x86_64."""
        return f"{self.abi}-{self.machine}"

    @property
    def tags(self) -> tuple[str, str, str]:
        """The tags of Python, of its ABI and of the platform, as in a wheel's name."""
        return self.abi.rstrip("t"), self.abi, "manylinux_{}_{}_{}".format(*GLIBC, self.machine)

    @property
    def suffix(self) -> str:
        """The end of an extension module's file name."""
        return f".cpython-{self.abi[2:]}-{self.machine}-linux-gnu.so"

    def wheel(self, version: str) -> str:
        """Return the file name of the wheel of a version of the package."""
        return f"shmtensor-{version}-{'-'.join(self.tags)}.whl"


def targets(only: Collection[str] | None = None) -> list[Target]:
    """Return all targets, or those of some names.

    Raises
    ------
    ValueError
        There is no target of a name.
    """
    known = {target.name: target for target in (Target(p, m) for m in MACHINES for p in PYTHONS)}
    if unknown := set(only or ()) - set(known):
        msg = f"no such targets: {sorted(unknown)}; there are {', '.join(known)}"
        raise ValueError(msg)
    return [target for name, target in known.items() if only is None or name in only]


def version(root: Path = ROOT) -> str:
    """Return the version of the sources."""
    text = (root / "python" / "shmtensor" / "_version.py").read_text()
    (number,) = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    return number
