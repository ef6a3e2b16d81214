"""``shmtensor top``: the memory of a process tree, its part in shared tensors, and its queues."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shmtensor._procfs import command_line
from shmtensor._values import human_bytes
from shmtensor.cli._arguments import count, observe_sessions, seconds
from shmtensor.cli._output import add_json, echo, print_json, print_table
from shmtensor.cli._queues import show_queues
from shmtensor.memory import ProcessMemory, process_memory, process_tree

if TYPE_CHECKING:
    import argparse

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "top",
        help="show the memory and the queues of a process tree",
        description="Show how much memory processes and their descendants use, how much of it is shared "
        "tensors, and the queues of their sessions. On a terminal, the tables are refreshed until Ctrl-C; "
        "otherwise they are printed once. Exit status: 0; 1 if there is no such process.",
    )
    parser.add_argument(
        "pids", nargs="*", type=int, metavar="PID", help="default: all processes that use shmtensor"
    )
    parser.add_argument(
        "--interval", type=seconds, default=1.0, help="seconds between two measurements (default: 1)"
    )
    parser.add_argument(
        "--count", type=count, help="number of measurements (default: unlimited on a terminal)"
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    live = sys.stdout.isatty() and not options.json
    rest = options.count if options.count is not None else (-1 if live else 1)
    try:
        while rest != 0:
            found = _measure(options.pids)
            if not found and options.pids:
                echo(f"no process {' '.join(map(str, options.pids))}")
                return 1
            if live:
                sys.stdout.write("\033[H\033[2J")
            _show(found, as_json=options.json)
            rest -= 1
            if rest != 0:
                time.sleep(options.interval)
    except KeyboardInterrupt:
        pass
    return 0


def _measure(roots: list[int]) -> dict[int, ProcessMemory]:
    pids = dict.fromkeys(pid for root in roots or _shmtensor_pids() for pid in process_tree(root))
    found = {}
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):  # it ended, or belongs to another user
            found[pid] = process_memory(pid)
    return found


def _shmtensor_pids() -> list[int]:
    """Return the processes of this user that map memory of shmtensor."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if b"shmtensor-" in (folder / "maps").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return sorted(found)


def _sessions_of(found: dict[int, ProcessMemory]) -> list[dict[str, Any]]:
    """Return the sessions in which one of the processes is."""
    pids = {pid for pid, memory in found.items() if memory.tensors}
    if not pids:
        return []
    seen, _ = observe_sessions([])
    return [one for one in seen if pids.intersection(process["pid"] for process in one["processes"])]


def _show(found: dict[int, ProcessMemory], *, as_json: bool) -> None:
    sessions = _sessions_of(found)
    if as_json:
        processes = [{"pid": pid, **asdict(memory)} for pid, memory in found.items()]
        queues = [{"session": one["session"], **queue} for one in sessions for queue in one["queues"]]
        print_json({"processes": processes, "queues": queues})
        return
    names = ("rss", "pss", "uss", "shared", "tensors", "tensors_pss")
    rows = [
        (pid, *(human_bytes(getattr(memory, name)) for name in names), command_line(pid)[:50])
        for pid, memory in found.items()
    ]
    print_table(("PID", "RSS", "PSS", "USS", "shared", "tensors", "tensors' PSS", "command"), rows)
    total = sum(memory.pss for memory in found.values())
    tensors = sum(memory.tensors_pss for memory in found.values())
    echo(f"total {human_bytes(total)}, of which shared tensors {human_bytes(tensors)}")
    for one in sessions:
        if one["queues"]:
            echo(f"queues of session {one['session']}")
            show_queues(one["queues"])
