"""Releases of Debian, of which mmdebstrap makes archives."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["ARCHITECTURES", "SUITES", "mmdebstrap"]

# The Pythons of a release that wheels are built for, each with the package of its `venv`.
SUITES = {
    "bookworm": {"3.11": "python3.11-venv"},
    "trixie": {"3.13": "python3.13-venv"},
    "forky": {"3.14": "python3.14-venv"},
}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def mmdebstrap(
    archive: Path,
    suite: str,
    packages: Sequence[str],
    *,
    variant: str = "minbase",
    machine: str | None = None,
) -> None:
    """Make a tar archive of a root with some packages and what they need; it is complete, or does not exist.

    Raises
    ------
    FileNotFoundError
        The program mmdebstrap is not installed.
    """
    if shutil.which("mmdebstrap") is None:
        msg = "mmdebstrap is not installed: run `make wheel-tools` as root, on Debian or Ubuntu"
        raise FileNotFoundError(msg)
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_name(f"unfinished-{archive.name}")
    command = ["mmdebstrap", "--quiet", f"--variant={variant}", f"--include={','.join(packages)}"]
    # A mirror that is weeks behind serves as well; what it has is still signed.
    command += ['--aptopt=Acquire::Check-Valid-Until "false"']
    command += [] if machine is None else [f"--architectures={ARCHITECTURES[machine]}"]
    subprocess.run([*command, suite, unfinished], check=True, timeout=3600)
    unfinished.rename(archive)
