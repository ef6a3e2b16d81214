"""The manager is killed between any two operations: the next one works, and nothing is lost."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import threading
from multiprocessing.reduction import ForkingPickler

import numpy as np
import psutil
import pytest

import shmtensor as st
from tests.helpers.children import (
    end,
    importing_tests,
    kill_manager_of,
    manager_pid,
    manager_pids,
    run_python,
    running,
    wait_until,
)
from tests.helpers.queues import take, until_none


def kill_manager() -> None:
    kill_manager_of(st.stats()["session"])


def serve(inbox, outbox) -> None:
    held = {}
    for order, name, value in until_none(inbox):
        if order == "keep":
            held[name] = value
        elif order == "make":
            held[name] = st.full(1000, value)
        elif order == "drop":
            del held[name]
        outbox.put(held.get(name))


class Helper:
    """Another process that creates, keeps and returns tensors."""

    def __init__(self, context) -> None:
        self.inbox, self.outbox = context.SimpleQueue(), context.SimpleQueue()
        self.process = context.Process(target=serve, args=(self.inbox, self.outbox))
        self.process.start()

    def ask(self, order: str, name: str, value=None):
        self.inbox.put((order, name, value))
        return take(self.outbox)

    def end(self) -> None:
        self.inbox.put(None)
        end(self.process)
        self.inbox.close()
        self.outbox.close()


def steps(helper: Helper, context):
    """Operations in order; each checks its own result."""
    state = {}

    def allocate() -> None:
        state["mine"] = st.full(1000, 1.0)

    def grow() -> None:
        state["large"] = st.full((8 << 20,), 2, np.uint8)

    def send_first() -> None:
        back = helper.ask("keep", "mine", state["mine"])
        assert back.storage() is state["mine"].storage()

    def receive_first() -> None:
        state["theirs"] = helper.ask("make", "theirs", 3.0)
        assert (state["theirs"].numpy() == 3).all()

    def release_here() -> None:
        del state["mine"]
        assert (helper.ask("get", "mine").numpy() == 1).all()

    def release_in_helper() -> None:
        helper.ask("drop", "theirs")
        assert (state["theirs"].numpy() == 3).all()

    def fork() -> None:
        if (pid := os.fork()) == 0:
            ok = (state["theirs"].numpy() == 3).all() and st.full(3, 4).numpy().sum() == 12
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0

    def new_process() -> None:
        another = Helper(context)
        assert (another.ask("keep", "large", state["large"]).numpy() == 2).all()
        another.end()

    def count() -> None:
        assert st.stats()["blocks"] >= 3

    def collect() -> None:
        st.gc()

    return [
        allocate, grow, send_first, receive_first, release_here, release_in_helper, fork, new_process, count,
        collect,
    ]  # fmt: skip


@pytest.mark.parametrize("before", [*range(10), "each"])
def test_next_operation_works_after_manager_death(ctx, strategy, before) -> None:
    helper = Helper(ctx)
    for i, step in enumerate(steps(helper, ctx)):
        if before in (i, "each") and manager_pids(st.stats()["session"]):
            kill_manager()
        step()
    helper.end()


def hold(inbox, outbox) -> None:
    tensor = inbox.get()
    outbox.put("held")
    inbox.get()
    del tensor


@pytest.mark.parametrize("order", ["manager first", "holder first"])
def test_next_manager_notices_earlier_process_death(ctx, strategy, order) -> None:
    inbox, outbox = ctx.SimpleQueue(), ctx.SimpleQueue()
    with running(ctx, hold, inbox, outbox) as process:
        tensor = st.ones(1000)
        before = st.stats()["blocks"]
        inbox.put(tensor)
        assert take(outbox) == "held"
        victims = [kill_manager, process.kill]
        for kill in victims if order == "manager first" else reversed(victims):
            kill()
    del tensor
    wait_until(lambda: st.stats()["blocks"] == before - 1, what="the dead holder's bit to be cleared")


def send_and_die(queue) -> None:
    queue.put(st.full(100, 8.0))
    queue.close()
    queue.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


def quiet_owner(queue, go) -> None:
    queue.put(st.full(100, 9.0))
    go.wait(60)


def test_new_manager_finds_arena_of_idle_owner(ctx) -> None:
    """The owner sleeps and does not know that the manager it registered with is dead."""
    queue, go = ctx.Queue(), ctx.Event()
    with running(ctx, quiet_owner, queue, go):
        assert queue._reader.poll(30)
        kill_manager()
        assert (take(queue).numpy() == 9).all()
        go.set()


def hold_and_send(queue, outbox, inbox) -> None:
    tensor = queue.get()
    outbox.put("held")
    inbox.get()
    outbox.put(tensor)


def test_new_manager_finds_arena_of_dead_owner_through_holder(ctx, strategy) -> None:
    """Owner and manager are dead; a holder registers the arena with the next manager, and exits."""
    queue, outbox, inbox = ctx.Queue(), ctx.SimpleQueue(), ctx.SimpleQueue()
    maker = ctx.Process(target=send_and_die, args=(queue,))
    holder = ctx.Process(target=hold_and_send, args=(queue, outbox, inbox))
    maker.start()
    end(maker)
    holder.start()
    assert take(outbox) == "held"
    kill_manager()
    inbox.put(None)
    assert (take(outbox).numpy() == 8).all()
    end(holder)


def put_and_wait(queue, inbox) -> None:
    queue.put(st.full(100, 7.0))
    inbox.get()


def test_message_outlives_sender_and_killed_manager(ctx, strategy) -> None:
    """The manager is killed after the put; the sender registers the arena with another one, and exits."""
    queue, inbox = ctx.Queue(), ctx.SimpleQueue()
    with running(ctx, put_and_wait, queue, inbox):
        assert queue._reader.poll(30)
        kill_manager()
        inbox.put(None)
    assert (take(queue).numpy() == 7).all()


def put_two_and_die(queue) -> None:
    for value in (5.0, 6.0):
        queue.put(st.full(100, value))
    queue.close()
    queue.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


def test_last_process_keeps_arena_descriptor_open(ctx, strategy) -> None:
    """Regression: a message was lost when the manager was killed, though a process had its arena open.

    Its sender was dead, and the process had received and released another tensor of that arena. When the
    process attached another arena, it closed the unused one before it asked the manager, which was dead: the
    next manager did not find the arena. So it now connects to a manager first.
    """
    queue, other, inbox = ctx.Queue(), ctx.Queue(), ctx.SimpleQueue()
    before = st.stats()["processes"]
    with running(ctx, put_two_and_die, queue):
        assert (take(queue).numpy() == 5).all()
    with running(ctx, put_and_wait, other, inbox):
        assert other._reader.poll(30)
        wait_until(lambda: st.stats()["processes"] == before + 1, what="the death to be seen")
        kill_manager()
        assert (take(other).numpy() == 7).all()
        assert (take(queue).numpy() == 6).all()
        inbox.put(None)
    inbox.close()
    for one in (queue, other):
        one.close()
        one.join_thread()


def test_many_processes_start_one_manager(ctx, strategy) -> None:
    kill_manager()
    with ctx.Pool(6) as pool:
        tensors = pool.map(make, range(24))
        assert [tensor[0].item() for tensor in tensors] == list(range(24))
        pool.close()
        pool.join()
    assert manager_pid(st.stats()["session"])


def make(i: int) -> st.Tensor:
    return st.full(10, i)


@pytest.mark.thorough
def test_stopped_manager_raises_instead_of_blocking() -> None:
    """Warm sends do not need the manager; a request times out with an error that names the remedy."""
    tensor = st.ones(10)
    pid = manager_pid(st.stats()["session"])
    os.kill(pid, signal.SIGSTOP)
    try:
        message = ForkingPickler.dumps(tensor)
        assert pickle.loads(message).storage() is tensor.storage()
        with pytest.raises(st.SessionError, match="did not answer within 10 seconds"):
            st.stats()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert st.stats()["blocks"] >= 1


LATE_CHILD = """
    import ctypes, os, signal, time
    import shmtensor as st
    from tests.helpers.children import kill_manager_of, wait_until

    # The child waits for a signal before shmtensor's own handler can enter it in the table.
    libc = ctypes.CDLL(None)
    libc.__register_atfork(None, None, libc.pause, None)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    tensor = st.full(1000, 7)
    if (child := os.fork()) == 0:
        try:
            st.ones(1)
        except st.SessionError as error:
            print(error, flush=True)
        os._exit(0)
    kill_manager_of(st.stats()["session"])
    wait_until(lambda: st.stats()["processes"] == 1, 60, "the slot to be given up")
    os.kill(child, signal.SIGUSR1)
    os.waitpid(child, 0)
    assert st.stats()["processes"] == 1
    assert tensor.tolist() == [7] * 1000
"""


@pytest.mark.thorough
def test_detached_child_gets_an_error() -> None:
    """Regression: it wrote its pid into a slot that another process might have by then."""
    done = run_python(LATE_CHILD, env=importing_tests())
    assert done.returncode == 0, done.stderr
    assert "it cannot use the tensors that it inherited" in done.stdout
    assert "the tensors it inherited are not protected" in done.stderr


def send_and_go_on_without_the_first_thread(queue, go) -> None:
    def rest() -> None:
        queue.put(st.full(1000, 5))
        go.wait(60)
        os._exit(0)

    threading.Thread(target=rest).start()
    # As pthread_exit in a program's main function, this ends only the thread.
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)


def test_arena_of_process_without_first_thread_is_found(ctx, strategy) -> None:
    """Regression: /proc shows it as a zombie without descriptors; a new manager did not find its arena."""
    queue, go = ctx.SimpleQueue(), ctx.Event()
    with running(ctx, send_and_go_on_without_the_first_thread, queue, go) as sender:
        wait_until(lambda: not queue.empty(), what="the message")
        wait_until(
            lambda: psutil.Process(sender.pid).status() == psutil.STATUS_ZOMBIE, what="the thread's end"
        )
        kill_manager()
        assert take(queue).tolist() == [5] * 1000
        assert sender.exitcode is None
        go.set()
