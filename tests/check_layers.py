"""The layer rules of the C++ core, checked by reading the sources: no build is needed.

Run by `make lint` as ``python -m tests.check_layers``, and by the tests.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1] / "csrc"

# A layer may include itself and those named here; so each arrow is the only permitted direction.
LAYERS = {
    "base": [],
    "containers": ["base"],
    "os": ["base"],
    "arena": ["os", "base"],
    "queue": ["arena", "os", "base"],
    "sync": ["queue", "arena", "os", "base"],
    "manager": ["sync", "queue", "arena", "os", "base"],
    "cuda": ["arena", "os", "base"],
    "session": ["cuda", "manager", "arena", "os", "base"],
    "channel": ["session", "queue", "arena", "os", "base"],
    "bindings": [
        "channel",
        "session",
        "sync",
        "queue",
        "cuda",
        "manager",
        "arena",
        "os",
        "containers",
        "base",
    ],
}

# The same for the folders of bindings. Its files outside of them register what the folders define.
BINDINGS = {
    "support": [],
    "session": ["support"],
    "storage": ["session", "support"],
    "tensor": ["storage", "support"],
    "transfer": ["tensor", "storage", "session", "support"],
    "channel": ["transfer", "tensor", "storage", "session", "support"],
    "containers": ["channel", "storage", "session", "support"],
    "sync": ["channel", "storage", "support"],
    "cuda": ["tensor", "storage", "session", "support"],
}

# Headers of system calls, and the files that may use them beside csrc/os.
SYSTEM = re.compile(r"#include <(sys/.*|fcntl|sched|dirent|poll|spawn|signal|pthread|dlfcn)(\.h)?>")
SYSTEM_ALLOWED = {
    "arena/segment.cpp",  # fstat, to check what a peer sent
    "arena/session_memory.cpp",  # the same
    "manager/messages.cpp",  # the same
    "manager/clients.cpp",  # a spare descriptor, to reject new connections
    "cuda/driver.cpp",  # the only dlopen
    "cuda/memory.cpp",  # close-on-exec for descriptors that the driver made
    "manager/main.cpp",  # a program, not a library
    "session/runtime.cpp",  # pthread_atfork
    "bindings/cuda/ipc_exports.cpp",  # the same
    "bindings/support/pybind_fork.cpp",  # the same
}
# What a simulated run replaces, and the only file of the core that may name it.
REPLACED = {
    "base/atomic.hpp": re.compile(r"std::atomic|#include <atomic>"),
    "os/plain_mutex.hpp": re.compile(r"std::(recursive_)?mutex|std::condition_variable"),
}
PYTHON = re.compile(r"#include [<\"](Python\.h|pybind11/.*|structmember\.h)[>\"]")


def broken_rules(root: Path = ROOT) -> list[str]:
    """Return one line for each include that breaks a rule."""
    found = []
    for path in sorted(root.rglob("*.[ch]pp")):
        name = path.relative_to(root).as_posix()
        layer = name.split("/")[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            own = re.match(r'#include "([a-z_]+)/', line)
            where = f"csrc/{name}:{number}"
            if own and layer not in LAYERS:
                found.append(f"{where}: {layer} is not a layer")
            elif own and own[1] != layer and own[1] not in LAYERS[layer]:
                found.append(f"{where}: {layer} may not include {own[1]}")
            if problem := _folder_problem(name, line):
                found.append(f"{where}: {problem}")
            if PYTHON.match(line) and layer != "bindings":
                found.append(f"{where}: only bindings knows Python")
            if SYSTEM.match(line) and layer != "os" and name not in SYSTEM_ALLOWED:
                found.append(f"{where}: system calls belong into os")
            for only, replaced in REPLACED.items():
                if replaced.search(line) and layer != "bindings" and name != only:
                    found.append(f"{where}: use what {only} declares")
            if line.startswith("#include <pybind11") and name != "bindings/support/python.hpp":
                found.append(f"{where}: include bindings/support/python.hpp instead")
    return found


def _folder_problem(name: str, line: str) -> str | None:
    """Return the problem of an include of one folder of bindings by another, or None."""
    user = re.match(r"bindings/([a-z_]+)/", name)
    used = re.match(r'#include "bindings/([a-z_]+)/', line)
    if user and user[1] not in BINDINGS:
        return f"bindings/{user[1]} is not a folder with a place in the order"
    if user and used and used[1] not in [user[1], *BINDINGS[user[1]]]:
        return f"bindings/{user[1]} may not include bindings/{used[1]}"
    return None


if __name__ == "__main__":
    problems = broken_rules()
    print("\n".join(problems) or "layers: fine")
    sys.exit(bool(problems))
