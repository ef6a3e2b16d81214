"""Fault injection: SIGKILL, SIGSTOP and SIGCONT for single actors, several actors and the manager."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.observer import processes
from tests.observer.snapshot import opened
from tests.torture import run_state as states

if TYPE_CHECKING:
    from tests.torture.director import Director

TAKEOVER = 60.0  # upper bound on the seconds until another manager has taken over, on a busy machine

WEIGHTS = {
    "kill": 60,
    "kill just started": 16,
    "kill several": 4,
    "kill forked": 8,
    "stop": 8,
    "kill stopped": 2,
    "kill manager": 2,
    "stop manager": 1,
}


class FaultInjector:
    rate = 60.0  # faults per second, if the machine keeps up

    def __init__(self, director: Director) -> None:
        self.director, self.rng, self.counts = director, director.rng, director.counts
        self.stopped: dict[int, float] = {}  # pid: time to resume
        self.helpers = set(
            processes.children(os.getpid())
        )  # resource tracker and fork server, which get no faults
        self.pause_until = 0.0

    def inject(self) -> None:
        self._resume(time.monotonic())
        (kind,) = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        rank = self.rng.randrange(self.director.state.actors)
        if self._waits_for_manager():
            return
        getattr(self, kind.replace(" ", "_"))(rank)

    def restore(self) -> None:
        self._resume(float("inf"))
        deadline = time.monotonic() + 10
        while self._waits_for_manager() and time.monotonic() < deadline:
            time.sleep(0.01)
            self.director.ledger.read()

    def kill(self, rank: int) -> None:
        self._kill(self.director.actors[rank].pid, "actors killed")
        self.director.replace(rank)

    def kill_just_started(self, rank: int) -> None:
        self.kill(rank)
        time.sleep(self.rng.random() * 0.01)
        self.kill(rank)

    def kill_several(self, rank: int) -> None:
        ranks = self.rng.sample(range(self.director.state.actors), (self.director.state.actors + 1) // 2)
        for one in ranks:
            self._kill(self.director.actors[one].pid, "actors killed")
        if self.director.state.allow_data_loss and self.rng.random() < 0.3:
            self._kill_managers()
        for one in ranks:
            self.director.replace(one)

    def kill_forked(self, rank: int) -> None:
        pid = int(self.director.board[1 + self.director.state.actors + rank][states.PID])
        # The pid of an exited child may belong to another program by now.
        if pid in set(self.director.family()) - {p.pid for p in self.director.actors.values()}:
            self._kill(pid, "forked children killed")

    def stop(self, rank: int) -> None:
        self._stop(self.director.actors[rank].pid, "actors stopped")

    def kill_stopped(self, rank: int) -> None:
        pid = self.director.actors[rank].pid
        self._stop(pid, "actors stopped")
        time.sleep(self.rng.random() * 0.02)
        self.kill(rank)
        self.stopped.pop(pid, None)

    def kill_manager(self, rank: int) -> None:
        if self._kill_managers() and not self.director.state.allow_data_loss:
            self.pause_until = time.monotonic() + TAKEOVER

    def stop_manager(self, rank: int) -> None:
        for pid in processes.managers(self.director.state.session):
            self._stop(pid, "managers stopped", 2)

    def kill_all(self, pids: list[int]) -> None:
        """Stop all processes before they are killed, so that none of them notices a death."""
        victims = [*processes.managers(self.director.state.session), *pids]
        for kind in (signal.SIGSTOP, signal.SIGKILL):
            for pid in victims:
                self._send(pid, kind)
        self.counts["killed simultaneously"] += len(victims)

    def in_slots(self) -> set[int]:
        """Return the live processes in the session's slots; for checkpoints only, since it opens files."""
        director = self.director
        with opened(director.state.session, director.family()) as (memory, _):
            slots = [] if memory is None else memory.slots.values()
        return {
            slot.pid
            for slot in slots
            if slot.taken and slot.pid and processes.is_alive(slot.pid)
            and processes.start_time(slot.pid) == slot.start_time
        }  # fmt: skip

    def _kill_managers(self) -> bool:
        """Kill the managers; without `allow_data_loss`, only if no memfd is open in the manager alone.

        A memfd whose owner and peers have exited, or are about to exit, is open in the manager only and is
        lost with it. The library cannot prevent that, so all processes are stopped to check for it.
        """
        session, family = self.director.state.session, self.director.family()
        managers = processes.managers(session)
        for pid in [] if self.director.state.allow_data_loss else family:
            self._send(pid, signal.SIGSTOP)
        staying = [] if self.director.state.allow_data_loss else self._stopped_actors(family)
        with opened(session, staying) as (memory, arenas), opened(session, managers) as (_, kept):
            elsewhere = {arena.number for _, arena in arenas}
            safe = memory is not None and all(arena.number in elsewhere for _, arena in kept)
            self.starts = (memory.manager_starts, memory.deaths) if memory else (0, 0)
        if safe or self.director.state.allow_data_loss:
            for pid in managers:
                self._kill(pid, "managers killed")
                while processes.is_alive(pid):  # a process that exits before that cannot notice the kill
                    time.sleep(0.001)
        for pid in family:
            if pid not in self.stopped:
                self._send(pid, signal.SIGCONT)
        return safe and bool(managers)

    def _stopped_actors(self, family: list[int]) -> list[int]:
        """Return the actors that a signal has stopped and that have not begun to exit.

        A process that was killed or exits can no longer be stopped, but keeps its descriptors for a moment.
        Children of actors exit with them, at any time.
        """
        deadline = time.monotonic() + 1
        while any(processes.is_alive(pid) and not processes.is_stopped(pid) for pid in family):
            if time.monotonic() > deadline:
                break
            time.sleep(0.0005)
        board = self.director.board[1:]
        actors = board[board[:, states.ENDING] == 0, states.PID].tolist()
        return [pid for pid in family if pid in actors and processes.is_stopped(pid)]

    def _waits_for_manager(self) -> bool:
        """Return True until another manager has taken over; no process is killed in this time.

        A process that dies in between closes memfds that only it and the manager had open. The library cannot
        prevent that.
        """
        if not self.pause_until:
            return False
        director = self.director
        with opened(director.state.session, director.family()) as (memory, _):
            back = memory and memory.manager_starts > self.starts[0] and memory.deaths > self.starts[1]
        if back or time.monotonic() > self.pause_until:
            self.pause_until = 0.0
            self.counts["managers back"] += bool(back)
            self.counts["managers late"] += not back
        return bool(self.pause_until)

    def _send(self, pid: int, kind: int) -> bool:
        with suppress(ProcessLookupError):
            os.kill(pid, kind)
            return True
        return False

    def _kill(self, pid: int, name: str) -> None:
        self.counts[name] += self._send(pid, signal.SIGKILL)

    def _stop(self, pid: int, name: str, most: float = 0.3) -> None:
        if self._send(pid, signal.SIGSTOP):
            self.stopped[pid] = time.monotonic() + self.rng.random() * most
            self.counts[name] += 1

    def _resume(self, now: float) -> None:
        for pid in [pid for pid, until in self.stopped.items() if until <= now]:
            del self.stopped[pid]
            self._send(pid, signal.SIGCONT)
