"""A broadcast between processes: order and completeness, joining and leaving, deaths, stops, forks."""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
import time
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import (
    end,
    fork,
    importing_tests,
    kill,
    manager_pid,
    output,
    run_beside,
    run_python,
    running,
    wait_until,
)
from tests.helpers.live_resources import assert_no_leaks
from tests.helpers.numbered_messages import message, number_in

SECONDS = 60


def read_all(b: st.Broadcast, results: st.Queue) -> None:
    with b.reader() as reader:
        numbers = [number_in(item) for item in reader]
        results.put((numbers == list(range(len(numbers))), len(numbers), reader.missed))


def test_it_travels_in_arguments(ctx) -> None:
    with assert_no_leaks():
        b, results = st.Broadcast(6), st.Queue()
        with running(ctx, read_all, b, results):
            b.wait_for_readers(1, timeout=SECONDS)
            for number in range(20):
                b.put(message(number), timeout=SECONDS)
            b.shutdown()
            assert results.get(timeout=SECONDS) == (True, 20, 0)
        del b, results


def read_now_and_then(b: st.Broadcast, seed: int) -> None:
    chance = random.Random(seed)
    while True:
        with b.reader() as reader:
            before = None
            for item in reader:
                number = number_in(item)
                assert before is None or number == before + 1
                before = number
                if chance.random() < 0.1:
                    break
            else:
                return


def test_readers_join_and_leave_at_random() -> None:
    context = mp.get_context("forkserver")
    with assert_no_leaks():
        b, results = st.Broadcast(4), st.Queue()
        steady = context.Process(target=read_all, args=(b, results))
        others = [context.Process(target=read_now_and_then, args=(b, seed)) for seed in range(3)]
        steady.start()
        b.wait_for_readers(1, timeout=SECONDS)
        for other in others:
            other.start()
        for number in range(1000):
            b.put(message(number), timeout=SECONDS)
        b.shutdown()
        assert results.get(timeout=SECONDS) == (True, 1000, 0)
        for process in (steady, *others):
            end(process)
            assert process.exitcode == 0
            process.close()
        del b, results


def write_numbers(b: st.Broadcast) -> None:
    for number in range(1 << 30):
        b.put(message(number), timeout=SECONDS)


def read_numbers(b: st.Broadcast) -> None:
    with b.reader() as reader:
        for item in reader:
            number_in(item)


def test_killed_readers_and_writers_stop_nobody() -> None:
    """Readers and writers are killed at random instants while others use the broadcast."""
    chance = random.Random(5)
    with assert_no_leaks():
        b: st.Broadcast = st.Broadcast(4)
        before = st.stats()["processes"]
        reader = b.reader()
        for _ in range(15):
            children = [fork(partial(work, b)) for work in (read_numbers, write_numbers)]
            deadline = time.monotonic() + chance.random() * 0.05
            while time.monotonic() < deadline:
                with suppress(queue.Empty):
                    number_in(reader.get(timeout=0.01))
            for child in children:
                kill(child)
        wait_until(lambda: st.stats()["processes"] == before, what="the dead to be noticed")
        assert b.readers == 1
        reader.close()
        reader = b.reader()
        b.put("end", timeout=SECONDS)
        assert reader.get(timeout=SECONDS) == "end"
        del b, reader


def test_stopped_reader_is_waited_for_and_misses_nothing() -> None:
    b, results = st.Broadcast(2), st.Queue()
    child = fork(lambda: read_all(b, results))
    b.wait_for_readers(1, timeout=SECONDS)
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    putter = threading.Thread(target=lambda: [b.put(message(number)) for number in range(10)])
    putter.start()
    wait_until(lambda: b.lag() == 2, what="the broadcast to be full")
    assert putter.is_alive()
    assert b.readers == 1
    os.kill(child, signal.SIGCONT)
    putter.join(SECONDS)
    b.shutdown()
    assert results.get(timeout=SECONDS) == (True, 10, 0)
    assert os.waitpid(child, 0)[1] == 0


def test_stopped_reader_that_is_killed_lets_the_writer_continue() -> None:
    b = st.Broadcast(1)
    child = fork(partial(read_numbers, b))
    b.wait_for_readers(1, timeout=SECONDS)
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    putter = threading.Thread(target=lambda: [b.put(st.ones(3)) for _ in range(10)])
    putter.start()
    wait_until(lambda: b.lag() == 1, what="the broadcast to be full")
    kill(child)
    putter.join(SECONDS)
    assert not putter.is_alive()
    assert b.readers == 0


def test_killed_manager_stops_nobody() -> None:
    assert output(run_beside(__file__, "killed_manager")) == "fine\n"


def test_messages_are_freed_although_the_manager_was_behind() -> None:
    """Regression: a notice that found the connection full waited for the next one."""
    most = 2000
    b, has_read = st.Broadcast(most), st.Queue()
    reader = b.reader()
    before = st.stats()["blocks"]

    def observe() -> None:
        has_read.get(timeout=SECONDS)
        wait_until(lambda: st.stats()["blocks"] <= before, what="the messages to be freed")

    for _ in range(most):
        b.put([st.ones(1)])
    with running(mp.get_context("fork"), observe) as observer:
        manager = manager_pid(st.stats()["session"])
        os.kill(manager, signal.SIGSTOP)
        try:
            for _ in range(most):
                reader.get()
        finally:
            os.kill(manager, signal.SIGCONT)
        has_read.put(True)
    assert observer.exitcode == 0


def test_forked_child_needs_a_reader_of_its_own() -> None:
    b = st.Broadcast(4)
    reader = b.reader()
    b.put(1)

    def child() -> None:
        for call in (reader.get, reader.get_nowait, reader.lag):
            with pytest.raises(st.SessionError, match="not to its forked child"):
                call()
        repr(reader)
        reader.close()
        with b.reader() as own:
            b.put(2)
            assert own.get() == 2
            assert b.readers == 2

    assert os.waitpid(fork(child), 0)[1] == 0
    assert b.readers == 1
    assert [reader.get(), reader.get()] == [1, 2]


def write_and_wait(b: st.Broadcast, end: st.Queue) -> None:
    for number in range(3):
        b.put(st.full(10, number))
    end.get(timeout=SECONDS)


def test_other_threads_run_while_a_reader_leaves(capfd) -> None:
    """Leaving maps the writer's arena, for messages that were not read, and waits for the manager."""
    b, end = st.Broadcast(4), st.Queue()
    reader = b.reader()
    with running(mp.get_context("fork"), write_and_wait, b, end) as writer:
        wait_until(lambda: b.lag() == 3, SECONDS)
        manager = manager_pid(st.stats()["session"])
        os.kill(manager, signal.SIGSTOP)
        timer = threading.Timer(0.5, os.kill, (manager, signal.SIGCONT))
        try:
            timer.start()
            del reader
        finally:
            timer.join()
        end.put(None)
    assert writer.exitcode == 0
    assert capfd.readouterr().err == "", "the wait for the manager timed out"


def test_reader_is_not_that_of_a_descendant_with_the_same_slot() -> None:
    """A process makes a reader, forks and ends; its grandchild gets its slot, another reader its record."""
    assert output(run_beside(__file__, "descendants")) == "b'fine'\n"


def test_forks_of_a_process_whose_threads_use_it() -> None:
    b = st.Broadcast(10)
    reader = b.reader()
    stop = threading.Event()

    def write() -> None:
        for number in range(1 << 30):
            if stop.is_set():
                break
            b.put(message(number), timeout=SECONDS)
        b.shutdown()

    numbers: list[int] = []
    threads = [
        threading.Thread(target=write),
        threading.Thread(target=lambda: numbers.extend(number_in(item) for item in reader)),
    ]
    for thread in threads:
        thread.start()

    def child() -> None:
        with b.reader() as own:
            first = number_in(own.get(timeout=SECONDS))
            assert number_in(own.get(timeout=SECONDS)) == first + 1

    for _ in range(20):
        assert os.waitpid(fork(child), 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert numbers == list(range(len(numbers)))


def put_and_die(b: st.Broadcast) -> None:
    b.put(st.full(100, 5))
    b.put([st.full(100, 6), np.full(100_000, 7)])
    os.kill(os.getpid(), signal.SIGKILL)


def test_messages_outlive_their_writer() -> None:
    with assert_no_leaks():
        b = st.Broadcast(4)
        readers = b.reader(), b.reader()
        worker = mp.get_context("forkserver").Process(target=put_and_die, args=(b,))
        worker.start()
        worker.join(SECONDS)
        worker.close()
        for reader in readers:
            assert reader.get(timeout=SECONDS).tolist() == [5] * 100
            tensor, array = reader.get(timeout=SECONDS)
            assert (tensor.tolist(), array[0]) == ([6] * 100, 7)
            del tensor, array
        del b, readers, reader


def test_broadcast_that_only_the_dead_had_is_freed() -> None:
    done = run_python(
        """
        import os, signal
        import shmtensor as st
        from tests.helpers.children import wait_until

        kept = st.ones(1)
        before = st.stats()["blocks"]
        if (child := os.fork()) == 0:
            b = st.Broadcast(50)
            reader = b.reader()
            for _ in range(20):
                b.put(st.ones(3))
                b.put([st.ones(3), b])
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        wait_until(lambda: st.stats()["blocks"] == before)
        print("fine")
        """,
        env=importing_tests(),
    )
    assert done.stdout == "fine\n", done


def read_newest(weights: st.Broadcast, read: st.Queue) -> None:
    with weights.reader() as reader:
        for newest in reader:
            read.put((newest == newest[0]).all())


def test_newest_value_is_read_whole() -> None:
    """Weights that a learner updates in place: the actors read a copy of each update."""
    weights, read = st.Broadcast(1, "drop_oldest"), st.Queue()
    actors = [mp.Process(target=read_newest, args=(weights, read)) for _ in range(2)]
    for actor in actors:
        actor.start()
    weights.wait_for_readers(2, timeout=SECONDS)
    values = np.zeros(1_000_000, "f4")
    while read.qsize() < 50:
        values += 1
        weights.put(values)
    weights.shutdown()
    for actor in actors:
        end(actor)
    assert all(read.get_many())
