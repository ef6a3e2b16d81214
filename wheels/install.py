"""Install wheels as a user does, and run the package's own test: `python -m wheels.install [--only TAG ...]`.

A wheel is installed in a fresh root of the release of Debian that has its Python; the root has neither a
compiler nor a network. A wheel for a Python that no release has is installed for an interpreter of this
machine. This needs root, and for wheels of another machine qemu-user-static.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from wheels.debian import SUITES, mmdebstrap
from wheels.headers import interpreters
from wheels.targets import ROOT, Target, targets, version

__all__ = ["install"]

BUILD = ROOT / "build" / "wheels"
# The root is in memory; mounts and processes end with the namespaces.
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net")
ENTER = """
archive=$1 wheels=$2 root=$3
shift 3
mount -t tmpfs tmpfs "$root"
tar -xf "$archive" -C "$root"
for compiler in cc c++ gcc g++ clang clang++ tcc; do
  if [ -e "$root/usr/bin/$compiler" ]; then echo "$archive has a compiler: $compiler" >&2; exit 1; fi
done
mkdir "$root/wheels"
mount --bind "$wheels" "$root/wheels"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev/shm"
exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root "$@"
"""


def install(target: Target, dist: Path) -> bool | None:
    """Install a wheel and run the test; return True if all is well, None if it is absent or cannot run."""
    suite = next((suite for suite, pythons in SUITES.items() if target.python in pythons), None)
    interpreter = next(interpreters(target.python), None) if target.machine == platform.machine() else None
    if suite is None and interpreter is None:
        print(f"{target.name}: not run, for neither Debian nor this machine has such a Python", flush=True)
        return None
    if not (dist / target.wheel(version())).exists():
        print(f"{target.name}: not built", flush=True)
        return None
    wheels = _with_numpy(target, dist)
    if suite is not None:
        print(f"{target.name}: in Debian {suite}", flush=True)
        command = [*_in_root(target, suite, wheels), "sh", "-s", f"python{target.python}", "/wheels"]
    else:
        print(f"{target.name}: for {interpreter}", flush=True)
        command = ["sh", "-s", interpreter, wheels]
    with Path(__file__).with_name("first_tensor.sh").open() as script:
        return subprocess.run(command, stdin=script, timeout=1800, check=False).returncode == 0


def _with_numpy(target: Target, dist: Path) -> Path:
    """Return a folder that has a wheel, and that of the newest NumPy for its target."""
    folder = BUILD / "install" / target.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python, abi, platform_tag = target.tags
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--implementation=cp", f"--python-version={python[2:]}", f"--abi={abi}"]
    command += [f"--platform={platform_tag}", f"--platform=manylinux_2_27_{target.machine}"]
    command += [f"--platform=manylinux2014_{target.machine}", "--dest", folder, "numpy"]
    subprocess.run(command, check=True, timeout=600)
    shutil.copy(dist / target.wheel(version()), folder)
    return folder


def _in_root(target: Target, suite: str, wheels: Path) -> list[str | Path]:
    """Return the beginning of a command that runs in a root of Debian, in which `wheels` is /wheels."""
    archive = BUILD / f"{suite}-{target.machine}.tar"
    if not archive.exists():
        mmdebstrap(archive, suite, list(SUITES[suite].values()), machine=target.machine)
    root = BUILD / "root"
    root.mkdir(exist_ok=True)
    return [*NAMESPACES, "sh", "-ec", ENTER, "sh", archive, wheels, root]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wheels.install", description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder of the wheels")
    parser.add_argument("--only", nargs="+", help="such as cp314t-x86_64", metavar="TAG")
    chosen = parser.parse_args()
    results = {target.name: install(target, chosen.dist) for target in targets(chosen.only)}
    for title, result in (("ok", True), ("failed", False), ("not run", None)):
        if names := [name for name, one in results.items() if one is result]:
            print(f"{title}: {' '.join(names)}")
    return int(False in results.values() or True not in results.values())


if __name__ == "__main__":
    sys.exit(main())
