"""What the driver answers about memory: handles, descriptors, forks, sizes."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import time
from typing import Any

from bench.gpu.driver import (
    CHUNK,
    Properties,
    allocate,
    ask,
    child,
    create,
    driver,
    export,
    exporter,
    first_byte,
    handle_of,
    import_,
    kill,
    need,
    open_handle,
)


def question_1() -> dict[str, Any]:
    """Code of cuIpcOpenMemHandle after the exporter's exit, its SIGKILL, cuMemFree."""
    found = {}
    for how in ("exit", "kill", "free"):
        pid, line = child(exporter)
        handle = line.recv(100)
        if how == "free":
            line.send(b"free")
            line.recv(10)
        else:
            line.send(b"exit") if how == "exit" else os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        found[how] = ask(lambda handle=handle: open_handle(handle)[0])
        if how == "free":
            kill(pid)
        line.close()
    return found


def question_2() -> dict[str, Any]:
    """Reading through a mapping after the exporter's SIGKILL."""
    pid, line = child(exporter)
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
    kill(pid)

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
    pid, line = child(exporter)
    handle = line.recv(100)
    found["opened"] = ask(lambda: handle_of(open_handle(handle)[1])[0])
    kill(pid)
    return found


def question_7() -> dict[str, Any]:
    """Codes in a forked child."""

    def body() -> dict[str, Any]:
        pointer, library = allocate(), driver()

        def forked() -> dict[str, Any]:
            other = ctypes.c_uint64()
            return {
                "cuInit": library.cuInit(0),
                "cuMemAlloc": library.cuMemAlloc_v2(ctypes.byref(other), ctypes.c_size_t(CHUNK)),
                "cuMemFree": library.cuMemFree_v2(pointer),
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
