"""Actions that make it hard for their own process: limits, signals, raw copies, namespaces, mixed scopes."""

from __future__ import annotations

import ctypes
import os
import platform
import random
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from tests.observer.patterns import new_tag
from tests.torture import run_state as states
from tests.torture.queues import put_letter, take_letter
from tests.torture.transports import new_letter

if TYPE_CHECKING:
    from tests.torture.actions import ActorState

_libc = ctypes.PyDLL(None)  # keeps the GIL, which a copied process needs
_CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
_SET_PDEATHSIG, _CLONE_NEWPID = 1, 0x20000000


class Interrupted(BaseException):
    """A signal handler raised it."""


_armed = False  # whether the handler raises: it may run late, after the call that it was set for


def _interrupt(*_: object) -> None:
    if _armed:
        raise Interrupted


def _interrupted(body: Callable[[], None], seconds: float) -> None:
    """Call a function; after that time a signal handler raises in it."""
    global _armed
    try:
        try:
            _armed = True
            signal.signal(signal.SIGALRM, _interrupt)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            body()
        finally:
            _armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        _armed = False


def is_alone(actor_state: ActorState) -> bool:
    """Return True if no second thread runs actions, or did so when this process was forked."""
    return actor_state.actor.helper is None and not (actor_state.is_helper or actor_state.has_orphan_thread)


def in_child(
    actor_state: ActorState,
    body: Callable[[], None],
    fork: Callable[[], int],
    kill_after: float | None = None,
) -> None:
    """Run a function in a forked child, which ends with its parent."""
    parent = os.getpid()
    pid = fork()
    if pid == 0:
        status = states.WRONG
        try:
            _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)
            # Another parent: it was killed before, and no signal will come. 0: in a PID namespace.
            if os.getppid() in (parent, 0):
                body()
            status = 0
        except Exception:
            actor_state.state.report_exception()
        finally:
            os._exit(status)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise AssertionError(f"the child exited with {status}")


def check_all(actor_state: ActorState) -> None:
    for letter in actor_state.held:
        if why := letter.mismatch():
            raise AssertionError(why)


def send_interrupted(actor_state: ActorState, rng: random.Random) -> None:
    """Send while a signal handler raises: each message that is in the pipe can be read."""
    if actor_state.is_helper:
        return
    letters = actor_state.held[:5]
    reader, writer = mp.Pipe(False)
    with reader, writer:
        for _ in range(10):
            _interrupted(lambda: [writer.send(letter) for letter in letters], 1e-5 + rng.random() * 5e-4)
            while reader.poll(0):
                actor_state.keep(reader.recv())


def receive_interrupted(actor_state: ActorState, rng: random.Random) -> None:
    """Receive while a signal handler raises: the message is lost, and nothing else."""
    if actor_state.is_helper:
        return

    def receive() -> None:
        letter = actor_state.receive(rng.choice(actor_state.state.boxes).receive_bytes())
        if letter is not None:
            actor_state.keep(letter)

    _interrupted(receive, 1e-5 + rng.random() * 3e-4)


def use_queues_interrupted(actor_state: ActorState, rng: random.Random) -> None:
    """Put and take while a signal handler raises: the next call works, and one message is lost at most."""
    if not actor_state.is_helper:
        for action in (put_letter, take_letter):
            _interrupted(partial(action, actor_state, rng), 1e-5 + rng.random() * 3e-4)
            action(actor_state, rng)


def receive_with_few_descriptors(actor_state: ActorState, rng: random.Random) -> None:
    """Receive with at most three descriptors left; what fails succeeds later, with the same bytes.

    A queue's message whose tensors cannot be mapped is lost.
    """
    content = rng.choice(actor_state.state.boxes).receive_bytes()
    if content is None:
        return
    letter = None
    if is_alone(actor_state):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + rng.randrange(4), hard))
        try:
            letter = actor_state.receive(content)
            for action in (put_letter, take_letter):
                action(actor_state, rng)
        except (OSError, st.SessionError, st.OutOfSharedMemory):
            pass
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    letter = letter or actor_state.receive(content)
    if letter is not None:
        actor_state.keep(letter)


def make_raw_copy(actor_state: ActorState, rng: random.Random) -> None:
    """Fork by the system call: the copy can read what its parent holds, and changes nothing."""
    if not is_alone(actor_state) or not actor_state.held:  # without a session, a copy may start one
        return

    def copy() -> None:
        try:
            check_all(actor_state)
        except AssertionError:
            time.sleep(
                1
            )  # a copy whose parent was killed, and holds nothing any more, is killed in this time
            raise
        actor_state.held.clear()
        calls: list[Callable[[], object]] = [partial(st.empty, 100)]
        for shared in actor_state.queues:
            calls += [shared.queue.get_nowait, partial(shared.queue.put_nowait, 1)]
        calls += [shared.lock.acquire for shared in actor_state.locks]
        for call in calls:
            try:
                call()
            except st.SessionError:
                continue
            raise AssertionError("a raw copy allocates, or uses a queue or lock")

    kill_after = rng.random() * 0.003 if rng.random() < 0.3 else None
    in_child(actor_state, copy, lambda: _libc.syscall(_CLONE, signal.SIGCHLD, 0, 0, 0, 0), kill_after)


def visit_namespace(actor_state: ActorState, rng: random.Random) -> None:
    """Use tensors in a new PID namespace.

    A manager that is started there is killed with the namespace, so rounds without data loss do not do this.
    """
    if not is_alone(actor_state) or actor_state.actor.is_forked or not actor_state.state.allow_data_loss:
        return

    def inside() -> None:
        check_all(actor_state)
        letter = new_letter(new_tag(rng.getrandbits(48)), 1000)
        rng.choice(actor_state.state.boxes).send(letter)
        receive_with_few_descriptors(actor_state, rng)
        put_letter(actor_state, rng)
        take_letter(actor_state, rng)
        check_all(actor_state)
        _core.ensure_managers()

    def enter() -> None:
        if _libc.unshare(_CLONE_NEWPID) == 0:  # which needs privileges
            kill_after = rng.random() * 0.02 if rng.random() < 0.3 else None
            with suppress(OSError):  # if a manager was started before the fork, its namespace has ended
                in_child(actor_state, inside, os.fork, kill_after)

    in_child(actor_state, enter, os.fork)


def post_interleaved(actor_state: ActorState, rng: random.Random) -> None:
    """Send two messages whose scopes overlap, as greenlets of one thread do."""
    if not actor_state.held:
        return
    messages = []
    for _ in range(2):
        scope = _core.SendScope()
        scope.__enter__()
        messages.append((scope, bytes(ForkingPickler.dumps(rng.choice(actor_state.held)))))
    rng.shuffle(messages)
    for scope, content in messages:
        scope.__exit__(None, None, None)
        try:
            rng.choice(actor_state.state.boxes).writer.send(content)
        except BlockingIOError:
            scope.discard()
        else:
            scope.delivered()


BLOWS = [
    (send_interrupted, 0.3), (receive_interrupted, 1), (use_queues_interrupted, 1),
    (receive_with_few_descriptors, 1), (make_raw_copy, 0.3), (visit_namespace, 0.3), (post_interleaved, 2),
]  # fmt: skip
