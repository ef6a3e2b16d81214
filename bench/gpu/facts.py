"""What the driver really does, where its documentation is silent: a table of answers.

``python -m bench.gpu.facts [--json FILE]``. The numbers are those of the questions in the design notes; 9,
10 and 12 to 15 need namespaces, other libraries or long kernels and are not asked here. The parent never
uses CUDA: each question forks its own processes. On the simulated driver (SHMTENSOR_LIBCUDA) the answers
are the simulator's, the table says so, and no time is taken.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 2 << 20
_driver: Any = None


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location", ctypes.c_int),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("type", ctypes.c_int), ("location", ctypes.c_int), ("flags", ctypes.c_int))


class Handle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


def driver() -> Any:
    """The driver with device 0's primary context current."""
    global _driver
    if _driver is None:
        _driver = ctypes.CDLL(os.environ.get("SHMTENSOR_LIBCUDA", "libcuda.so.1"))
        need(_driver.cuInit(0))
        context = ctypes.c_void_p()
        need(_driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        need(_driver.cuCtxPushCurrent_v2(context))
    return _driver


def need(code: int) -> None:
    """A step on the way to a question worked."""
    if code != 0:
        raise RuntimeError(f"the driver answered {code}")


def allocate() -> ctypes.c_uint64:
    """2 MiB of cuMemAlloc that begin with a 7."""
    pointer = ctypes.c_uint64()
    need(driver().cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(CHUNK)))
    need(driver().cuMemcpyHtoDAsync_v2(pointer, b"\7", ctypes.c_size_t(1), None))
    need(driver().cuStreamSynchronize(None))
    return pointer


def handle_of(pointer: ctypes.c_uint64) -> tuple[int, bytes]:
    """The answer of cuIpcGetMemHandle, and the bytes."""
    handle = Handle()
    return driver().cuIpcGetMemHandle(ctypes.byref(handle), pointer), bytes(handle)


def open_handle(content: bytes) -> tuple[int, ctypes.c_uint64]:
    """The answer of cuIpcOpenMemHandle, and the address."""
    pointer = ctypes.c_uint64()
    handle = Handle.from_buffer_copy(content)
    return driver().cuIpcOpenMemHandle_v2(ctypes.byref(pointer), handle, 1), pointer


def create() -> ctypes.c_uint64:
    """A shareable chunk of virtual memory."""
    handle = ctypes.c_uint64()
    properties = Properties(1, 1, 1, 0)
    need(driver().cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(CHUNK), ctypes.byref(properties), 0))
    return handle


def export(handle: ctypes.c_uint64) -> tuple[int, int]:
    """The answer of cuMemExportToShareableHandle, and the descriptor."""
    descriptor = ctypes.c_int(-1)
    return driver().cuMemExportToShareableHandle(ctypes.byref(descriptor), handle, 1, 0), descriptor.value


def import_(descriptor: int) -> tuple[int, ctypes.c_uint64]:
    """The answer of cuMemImportFromShareableHandle, and the handle."""
    handle = ctypes.c_uint64()
    return driver().cuMemImportFromShareableHandle(
        ctypes.byref(handle), ctypes.c_void_p(descriptor), 1
    ), handle


def first_byte(pointer: ctypes.c_uint64) -> int:
    """What the memory begins with; the driver's answer, negative, if it cannot be read."""
    content = ctypes.create_string_buffer(1)
    code = driver().cuMemcpyDtoHAsync_v2(content, pointer, ctypes.c_size_t(1), None)
    code = code or driver().cuStreamSynchronize(None)
    return -code if code else content.raw[0]


def child(body: Callable[[socket.socket], None]) -> tuple[int, socket.socket]:
    """Run a function in a forked process, at the other end of a socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(60)
    pid = os.fork()
    if pid == 0:
        signal.alarm(100)
        ours.close()
        try:
            body(theirs)
            os._exit(0)
        except BaseException as error:  # reported to the parent, whatever it is
            theirs.send(f"{type(error).__name__}: {error}".encode())
            os._exit(1)
    theirs.close()
    return pid, ours


def ask(body: Callable[[], Any]) -> Any:
    """What a function answers in a process of its own."""
    pid, line = child(lambda end: end.send(json.dumps(body()).encode()) and None)
    answer = line.recv(1 << 16).decode()
    line.close()
    os.waitpid(pid, 0)
    try:
        return json.loads(answer)
    except ValueError:
        return answer


def _exporter(end: socket.socket) -> None:
    pointer = allocate()
    end.send(handle_of(pointer)[1])
    if end.recv(10) == b"free":
        need(driver().cuMemFree_v2(pointer))
        end.send(b"freed")
        end.recv(10)


def question_1() -> dict[str, Any]:
    """Code of cuIpcOpenMemHandle after the exporter's exit, its SIGKILL, cuMemFree."""
    found = {}
    for how in ("exit", "kill", "free"):
        pid, line = child(_exporter)
        handle = line.recv(100)
        if how == "free":
            line.send(b"free")
            line.recv(10)
        else:
            line.send(b"exit") if how == "exit" else os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        found[how] = ask(lambda handle=handle: open_handle(handle)[0])
        if how == "free":
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        line.close()
    return found


def question_2() -> dict[str, Any]:
    """Reading through a mapping after the exporter's SIGKILL."""
    pid, line = child(_exporter)
    handle = line.recv(100)

    def body() -> dict[str, Any]:
        code, pointer = open_handle(handle)
        need(code)
        before = first_byte(pointer)
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
        return {"before": before, "after": first_byte(pointer)}

    found = ask(body)
    os.waitpid(pid, 0)
    return found


def question_3() -> dict[str, Any]:
    """Importing a descriptor that lies in a socket only, its exporter killed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def body(end: socket.socket) -> None:
        socket.send_fds(theirs, [b"x"], [export(create())[1]])
        end.send(b"sent")
        signal.pause()

    pid, line = child(body)
    line.recv(10)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    def receive() -> dict[str, Any]:
        _, descriptors, _, _ = socket.recv_fds(ours, 10, 1)
        return {"import": import_(descriptors[0])[0]}

    return ask(receive)


def question_4_5() -> dict[str, Any]:
    """Exporting what was imported; is close-on-exec set?"""

    def body() -> dict[str, Any]:
        code, descriptor = export(create())
        need(code)
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFD)
        code, handle = import_(descriptor)
        need(code)
        return {"export again": export(handle)[0], "close-on-exec": bool(flags & fcntl.FD_CLOEXEC)}

    return ask(body)


def question_6() -> dict[str, Any]:
    """Asking cuIpcGetMemHandle of interior and freed pointers; of what was opened."""

    def body() -> dict[str, Any]:
        pointer = allocate()
        inner = handle_of(ctypes.c_uint64(pointer.value + 4096))
        found = {"interior": inner[0], "interior is the same": inner[1] == handle_of(pointer)[1]}
        need(driver().cuMemFree_v2(pointer))
        return found | {"freed": handle_of(pointer)[0]}

    found = ask(body)
    pid, line = child(_exporter)
    handle = line.recv(100)
    found["opened"] = ask(lambda: handle_of(open_handle(handle)[1])[0])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return found


def question_7() -> dict[str, Any]:
    """Codes in a forked child."""

    def body() -> dict[str, Any]:
        pointer = allocate()

        def forked() -> dict[str, Any]:
            other = ctypes.c_uint64()
            return {
                "cuInit": driver().cuInit(0),
                "cuMemAlloc": driver().cuMemAlloc_v2(ctypes.byref(other), ctypes.c_size_t(CHUNK)),
                "cuMemFree": driver().cuMemFree_v2(pointer),
            }

        return ask(forked)

    return ask(body)


def question_8() -> dict[str, Any]:
    """Opening in the own process; closing what was never opened."""

    def body() -> dict[str, Any]:
        pointer = allocate()
        return {
            "open own": open_handle(handle_of(pointer)[1])[0],
            "close other": driver().cuIpcCloseMemHandle(pointer),
        }

    return ask(body)


def question_11() -> dict[str, Any]:
    """Microseconds of single calls, 2 MiB."""

    def body() -> dict[str, Any]:
        def timed(call: Callable[[], Any]) -> float:
            start = time.perf_counter()
            call()
            return round((time.perf_counter() - start) * 1e6, 1)

        pointer = allocate()
        handle = create()
        descriptor = export(handle)[1]
        return {
            "cuIpcGetMemHandle": timed(lambda: handle_of(pointer)),
            "cuMemCreate": timed(create),
            "cuMemExportToShareableHandle": timed(lambda: export(handle)),
            "cuMemImportFromShareableHandle": timed(lambda: import_(descriptor)),
        }

    return ask(body)


def question_16() -> dict[str, Any]:
    """Granularity of virtual memory."""

    def body() -> dict[str, Any]:
        size = ctypes.c_size_t()
        properties = Properties(1, 1, 1, 0)
        driver()
        found = {}
        for name, kind in (("minimum", 0), ("recommended", 1)):
            need(driver().cuMemGetAllocationGranularity(ctypes.byref(size), ctypes.byref(properties), kind))
            found[name] = size.value
        return found

    return ask(body)


QUESTIONS = (
    question_1,
    question_2,
    question_3,
    question_4_5,
    question_6,
    question_7,
    question_8,
    question_11,
    question_16,
)


def main() -> int:
    """Ask all, print a table, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    simulated = "SHMTENSOR_LIBCUDA" in os.environ
    print("answers of the SIMULATED driver" if simulated else "answers of the driver")
    answers = {}
    for question in QUESTIONS:
        if simulated and question is question_11:
            continue
        answers[question.__name__] = question()
        print(f"{question.__name__[9:]:>5}  {question.__doc__}\n       {answers[question.__name__]}")
    if options.json is not None:
        options.json.write_text(json.dumps({"simulated": simulated, "answers": answers}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
