"""Each C++ allocation of a call fails in turn; afterwards nothing is left, and another call succeeds.

`test_scarce_heap.py` runs it. Arguments: an area, and its case. Prints how many allocations the calls need.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection as std
from typing import Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from tests.helpers.children import fork, kill_manager_of, wait_until
from tests.helpers.scarce_heap import PLENTY, allocations
from tests.interop.test_dlpack_exchange import allocated

MOST = 1000
SHORT = 3  # the exit status of a child for which there were too few allocations

Call = Callable[[], object]

leave = allocations()


def succeeds(call: Call, left: int) -> bool:
    leave(left)
    try:
        call()
    except MemoryError:
        return False
    finally:
        leave(PLENTY)
    return True


def nothing() -> None:
    pass


def blocks() -> int:
    return st.stats()["blocks"]


def survey(clean: Call, *steps: tuple[Call, Call], count: Callable[[], int] = blocks) -> int:
    """Let the second call of each step fail at each of its allocations; the first one prepares it.

    `clean` removes what a step may leave; then `count` must be as before. Return how many allocations are
    enough for all steps.
    """
    for prepare, call in steps:  # what is allocated once
        prepare()
        call()
        clean()
    before = count()
    for left in range(MOST):
        done = True
        for number, (prepare, call) in enumerate(steps):
            prepare()
            done = succeeds(call, left) and done
            clean()
            what = f"what step {number} leaves with {left} allocations to be freed"
            wait_until(lambda: count() == before, what=what)
        if done:
            return left
    raise AssertionError(f"{MOST} allocations are too few")


def make(item: str) -> Any:
    if item == "buffers":
        return {"large": np.ones(50_000), "small": np.ones(5)}
    tensors = [st.ones(5000) for _ in range(3)]
    return {"tensor": tensors[0], "list": tensors, "pickle": (frozenset([1]), tensors)}[item]


def end_manager() -> None:
    """Kill the manager: the next call that needs one starts another."""
    kill_manager_of(str(st.stats()["session"]))


def send(put: Callable[[Any], object], item: str, is_empty: Callable[[], bool]) -> None:
    """Send a message; if that fails, none was sent."""
    try:
        put(make(item))
    except MemoryError:
        leave(PLENTY)
        assert is_empty(), "a message was sent by a call that failed"
        raise


def queues(kind: str, item: str) -> int:
    source: Any
    target: Any
    if kind == "broadcast":
        target = st.Broadcast(100)
        source = target.reader()
    else:
        target = source = st.Queue(redeliver=kind == "redelivering queue")

    def put() -> None:
        send(target.put, item, lambda: not drain())

    def drain() -> int:
        messages = 0
        with suppress(queue.Empty):
            while True:
                source.get_nowait()
                messages += 1
        return messages

    return survey(drain, (nothing, put), (put, source.get_nowait))


def pipes(kind: str, item: str) -> int:
    ends = mp.Pipe(duplex=kind == "duplex pipe")

    def put() -> None:
        send(ends[1].send, item, lambda: not ends[0].poll())

    def get() -> None:
        ends[0].recv()

    def drain() -> None:
        while ends[0].poll():
            get()

    return survey(drain, (nothing, put), (end_manager, put), (put, get))


def names(_: str, item: str) -> int:
    def publish() -> None:
        st.publish("name", make(item))

    def build() -> None:
        st.once("name", lambda: make(item))

    def attach() -> None:
        st.attach("name")

    def unpublish() -> None:
        st.unpublish("name")

    return survey(
        unpublish,
        (nothing, publish),
        (publish, publish),
        (publish, attach),
        (publish, unpublish),
        (nothing, build),
        (publish, build),
    )


def containers(_: str, item: str) -> int:
    array = np.arange(12.0).reshape(3, 4)
    items: list[Any] = {
        "plain": [{"a": 1}, "text" * 2000, 3],
        "arrays": [array, array.T],
        "buffers": [pickle.PickleBuffer(b"buffer" * 20), {"array": array}],
    }[item]
    inner = {str(number): number for number in range(20)}
    mapping = {"first": items[0], "inner": {"second": items[1], **inner}, 7: 1}
    listed, mapped = st.SharedList(items), st.SharedDict(mapping)
    reader, writer = mp.Pipe(duplex=False)

    def read_too_far() -> None:
        with suppress(IndexError):
            _ = listed[10**17]  # the number is too long for the place in a string itself

    def put() -> None:
        writer.send((listed, mapped))

    def drain() -> None:
        while reader.poll():
            reader.recv()

    return survey(
        drain,
        (nothing, lambda: st.SharedList(items)),
        (nothing, lambda: st.SharedDict(mapping)),
        (nothing, lambda: list(listed)),
        (nothing, lambda: listed[::-1][np.arange(2)][0]),
        (nothing, read_too_far),
        (nothing, mapped.to_dict),
        (nothing, put),
        (put, reader.recv),
    )


def objects(*_: str) -> int:
    private = np.ones(5000)
    frame = {"a": np.arange(1000.0), "b": np.arange(30.0)}
    tensor = st.ones((50, 40))
    storage = tensor.storage()

    def exchange() -> None:
        made: Any = allocated((5,), 0, 8)
        if isinstance(made, tuple):
            assert made[0] in {"MemoryError", "RuntimeError"}, made
            raise MemoryError
        made.contents.deleter(made)

    def use() -> None:
        view = tensor[3:, ::2]
        view += 1
        view = view.T.reshape(-1)[::-1]
        assert repr(view)
        assert np.shares_memory(np.from_dlpack(view), view.numpy())
        assert (tensor[[1, 2]] == 3).shape == (2, 40)

    with tempfile.NamedTemporaryFile() as file:
        file.truncate(5000)
        return survey(
            nothing,
            (nothing, lambda: st.Storage.from_file(file.name)),
            (nothing, lambda: st.from_numpy(private).share_memory_()),
            (nothing, lambda: st.asarray(private)),
            (nothing, lambda: st.share(frame)),
            (nothing, lambda: st.stack([tensor, tensor])),
            (nothing, lambda: st.ones(100).release()),
            (nothing, lambda: st.ones(3_000_000)),
            (nothing, lambda: pickle.loads(pickle.dumps(tensor))),
            (nothing, lambda: _core.PrivateView(storage)),
            (nothing, lambda: _core.BlockWatch(storage).is_free()),
            (nothing, lambda: st.gc(older_than=100)),
            (nothing, exchange),
            (nothing, use),
        )


def run_in_child(work: Call) -> None:
    """Raise MemoryError if there were too few allocations for a forked child."""
    pid = fork(work)
    leave(PLENTY)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, SHORT), f"a child ended with {status}"
    if status == SHORT:
        raise MemoryError


def forks(_: str, strategy: str) -> int:
    mp.set_sharing_strategy(strategy)
    tensors = [st.full(5000, 3.0), st.full(7, 3.0)]

    def read() -> None:
        leave(PLENTY)
        assert all((tensor.numpy() == 3.0).all() for tensor in tensors)
        try:
            st.ones(10)
        except st.SessionError:  # a child without a slot can only read
            os._exit(SHORT)

    def fork_one() -> None:
        run_in_child(read)

    return survey(nothing, (nothing, fork_one), (end_manager, fork_one))


def processes(_: str, method: str) -> int:
    context: Any = mp.get_context(method)

    def start() -> None:
        process = context.Process(target=id, args=(make("list"),))
        process.start()
        process.join()
        assert process.exitcode == 0

    return survey(nothing, (nothing, start))


def newcomers(_: str, action: str) -> int:
    """Let processes join the session in the call. This process is not in it: its forks know nothing of it."""
    reader, writer = std.Pipe(duplex=False)
    ours, theirs = std.Pipe()

    def serve() -> None:
        ours.close()  # so that this process ends with the other one
        tensors = make("list")
        st.publish("name", tensors)
        for request in iter(theirs.recv, None):
            if request == "receive":
                writer.send(tensors[0])
                writer.send(make("list"))
            theirs.send(blocks())

    def ask(request: str = "blocks") -> int:
        ours.send(request)
        return int(ours.recv())

    call: Call = {
        "allocate": lambda: st.ones(7),
        "attach": lambda: st.attach("name"),
        "receive": reader.recv,
    }[action]

    def join() -> None:
        try:
            call()
            status = 0
        except MemoryError:
            status = SHORT
        leave(PLENTY)
        call()
        os._exit(status)

    server = fork(serve)
    ask()  # the name is published
    left = survey(nothing, (lambda: ask(action), lambda: run_in_child(join)), count=ask)
    assert not reader.poll()
    ours.send(None)
    assert os.waitpid(server, 0)[1] == 0
    return left


def main() -> None:
    area, item = sys.argv[1:]
    areas: dict[str, Callable[[str, str], int]] = {
        "pipe": pipes,
        "duplex pipe": pipes,
        "names": names,
        "containers": containers,
        "objects": objects,
        "forks": forks,
        "processes": processes,
        "newcomers": newcomers,
    }
    print(areas.get(area, queues)(area, item))


if __name__ == "__main__":
    main()
