"""What `shmtensor doctor` reports of the GPUs. A child process asks the driver; see `_ask`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import shmtensor._core as _core
from shmtensor.errors import CudaError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = 60.0  # a driver may take several to start
_CHILD = "from shmtensor._cuda.doctor import answer; answer()"


def answer() -> None:
    """Print what the driver reports, or why it does not."""
    try:
        version, path, devices = _core.cuda_describe_devices()
        reply = {"version": version, "path": path, "devices": devices}
    except CudaError as error:
        reply = {"error": str(error)}
    sys.stdout.write(json.dumps(reply))


def findings() -> Iterator[tuple[str, bool, str]]:
    """Yield name, whether it is in order, and text."""
    reply = _ask()
    if "error" in reply:
        yield "GPUs", False, reply["error"]
        return
    major, minor = divmod(reply["version"] // 10, 100)
    yield "CUDA", True, f"{major}.{minor} ({reply['path']}); all processes that share need the same driver"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        yield "CUDA_VISIBLE_DEVICES", True, f"{visible}; other processes may number the GPUs otherwise"
    for number, device in enumerate(reply["devices"]):
        yield from _device(f"cuda:{number}", device, len(reply["devices"]))


# The driver's start in this process would make each later fork a child without CUDA.
def _ask() -> dict[str, Any]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _CHILD]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
        answered: dict[str, Any] = json.loads(done.stdout)
        return answered
    except subprocess.TimeoutExpired:
        return {"error": f"the driver has not answered within {_SECONDS:.0f} s; see nvidia-smi and dmesg"}
    except (OSError, ValueError) as error:
        return {"error": f"a child process could not ask the driver: {error}"}


def _device(name: str, device: dict[str, Any], count: int) -> Iterator[tuple[str, bool, str]]:
    tensors, arrays = device["virtual_memory"], device["ipc"]
    shared = ["tensors"] * tensors + ["arrays of other libraries", "events"] * arrays
    text = f"{device['name']} ({device['uuid']}): shares {', '.join(shared) or 'nothing'}"
    if not tensors:
        text += "; tensors need virtual memory by descriptors, which WSL2, some vGPUs and old drivers lack"
    if not arrays:
        text += "; arrays of other libraries are copied (attribute IPC_EVENT_SUPPORTED)"
    if device["integrated"]:
        text += "; integrated: its memory is the host's, where host tensors are shared without a copy"
    if "MIG" in device["name"]:
        text += "; a MIG instance: only processes that see the same instance can receive its tensors"
    yield name, tensors, text
    if device["exclusive"]:
        yield f"{name} mode", False, "one process at a time: nvidia-smi -c DEFAULT lets others receive"
    if device["mps"]:
        yield f"{name} MPS", True, "all processes that share must be clients of one MPS daemon"
    if count > 1:
        others = ", ".join(f"cuda:{peer}" for peer in device["peers"])
        yield f"{name} peers", True, others or "none: copies to other GPUs go through the host"
