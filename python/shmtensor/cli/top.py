"""``shmtensor top``: sessions, the memory of their processes, unread messages and queues, as they change."""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shmtensor._procfs import command_line
from shmtensor._values import human_bytes
from shmtensor.cli import _tables
from shmtensor.cli._arguments import observe_sessions, seconds
from shmtensor.cli._output import Table, add_json, complain, print_json, show
from shmtensor.cli._rates import Rates
from shmtensor.memory import ProcessMemory, process_memory, process_tree

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["add_parser"]

_COLUMNS = ("rss", "pss", "uss", "shared", "tensors", "tensors_pss")


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "top",
        help="show sessions, memory, unread messages and queues as they change",
        description="Show the sessions of this user: the memory of their processes and how much of it is "
        "shared tensors, arenas, unread messages with age, queues with depth and rates, names. On a "
        "terminal, the screen is refreshed until q or Ctrl-C; that needs rich (pip install rich). Otherwise "
        "one frame is printed. Exit status: 0; 1 if a given process does not exist; 2 if rich is "
        "not installed.",
    )
    parser.add_argument(
        "pids",
        nargs="*",
        type=int,
        metavar="PID",
        help="only these processes, their descendants and their sessions",
    )
    parser.add_argument(
        "--interval", type=seconds, default=1.0, help="seconds between two frames (default: 1)"
    )
    parser.add_argument("--once", action="store_true", help="print one frame, without rates")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    dumb = os.environ.get("TERM", "") in {"dumb", "unknown"}  # rich draws no live screen there
    once = options.once or options.json or dumb or not sys.stdout.isatty()
    if not once and importlib.util.find_spec("rich") is None:
        complain("the live screen needs rich: pip install rich; --once prints one frame without it")
        return 2
    frame = _Frame(options.pids)
    if options.pids and not frame.memory:
        return _no_process(options.pids)
    if options.json:
        print_json(frame.document())
        complain(*frame.problems)
    elif once:
        show(frame.parts())
    else:
        with suppress(KeyboardInterrupt):
            return _refresh(frame, options.pids, options.interval)
    return 0


def _refresh(frame: _Frame, roots: list[int], interval: float) -> int:
    from shmtensor.cli._screen import Screen

    rates = Rates()
    with Screen() as screen:
        while frame.memory or not roots:
            rates.begin()
            screen.show(frame.parts(rates))
            if not screen.wait(interval):
                return 0
            frame = _Frame(roots)
    return _no_process(roots)


def _no_process(pids: list[int]) -> int:
    complain(f"no process {' '.join(map(str, pids))}")
    return 1


class _Frame:
    """What one refresh shows: processes and sessions of one instant, as far as they still exist."""

    def __init__(self, roots: list[int]) -> None:
        self.sessions, _, self.problems = observe_sessions([])
        members = {one["session"]: [process["pid"] for process in one["processes"]] for one in self.sessions}
        if roots:
            pids = dict.fromkeys(pid for root in roots for pid in process_tree(root))
            self.sessions = [
                one for one in self.sessions if not pids.keys().isdisjoint(members[one["session"]])
            ]
        else:
            pids = dict.fromkeys(pid for some in members.values() for pid in some)
        self.memory: dict[int, ProcessMemory] = {}
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):  # it ended, or belongs to another user
                self.memory[pid] = process_memory(pid)

    def document(self) -> dict[str, Any]:
        """Return the frame for JSON."""
        processes = [
            {"pid": pid, "command": command_line(pid), **asdict(memory)}
            for pid, memory in self.memory.items()
        ]
        return {"processes": processes, "sessions": self.sessions}

    def parts(self, rates: Rates | None = None) -> Iterator[str | Table]:
        """Return the frame for people."""
        total = sum(memory.pss for memory in self.memory.values())
        tensors = sum(memory.tensors_pss for memory in self.memory.values())
        yield (
            f"{_count(len(self.memory), 'process', 'processes')}, "
            f"{_count(len(self.sessions), 'session', 'sessions')}; "
            f"total {human_bytes(total)}, of which shared tensors {human_bytes(tensors)}"
        )
        members = [process for one in self.sessions for process in one["processes"]]
        busy = {one["pid"]: one["busy"] for one in members if one["busy"] is not None}  # in one session
        rows = [
            (
                pid,
                *(human_bytes(getattr(memory, name)) for name in _COLUMNS),
                _tables.task(busy.get(pid)),
                command_line(pid)[: _tables.COMMAND],
            )
            for pid, memory in self.memory.items()
        ]
        head = ("PID", "RSS", "PSS", "USS", "shared", "tensors", "tensors' PSS", "task", "command")
        yield Table(head, rows)
        yield from self.problems
        for one in self.sessions:
            yield _tables.title(one)
            yield _tables.queues(one, rates)
            yield _tables.messages(one)
            yield _tables.arenas(one)
            yield _tables.names(one)


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
