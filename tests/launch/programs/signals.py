"""A program with handlers of signals that forks; `test_signals.py` runs it. Argument: FUNCTION."""

import contextlib
import os
import signal
import socket
import sys
import threading

import shmtensor.multiprocessing as mp


def handlers(_=None):
    names = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGALRM")
    found = [signal.getsignal(getattr(signal, name)) for name in names]
    return signal.set_wakeup_fd(-1), *map(repr, found), sorted(signal.pthread_sigmask(0, ()))


def handler(number, frame):
    os._exit(77)


def in_a_process(context):
    pipe, end = context.Pipe()
    process = context.Process(target=lambda: end.send(handlers()))
    process.start()
    process.join()
    return pipe.recv()


context = mp.get_context("fork")
signal.signal(signal.SIGTERM, handler)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.signal(signal.SIGUSR2, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
loop, wakeup = socket.socketpair()
loop.setblocking(False)
wakeup.setblocking(False)


def event_loop():
    signal.set_wakeup_fd(wakeup.fileno())
    default, ignored = "<Handlers.SIG_DFL: 0>", "<Handlers.SIG_IGN: 1>"
    interrupted = repr(signal.default_int_handler)
    expected = (-1, default, interrupted, ignored, default, default, [signal.SIGUSR2])
    found = [in_a_process(context)]
    thread = threading.Thread(target=lambda: found.append(in_a_process(context)))
    thread.start()
    thread.join()
    with context.Pool(1) as pool:
        found.append(pool.apply(handlers))
    found += mp.start_processes(handlers, nprocs=1, join=False, start_method="fork").results()
    assert found == [expected] * 4, found
    assert signal.getsignal(signal.SIGTERM) is handler
    assert signal.pthread_sigmask(0, ()) == {signal.SIGUSR2}
    assert signal.set_wakeup_fd(-1) == wakeup.fileno()


def asyncio_loop():
    import asyncio  # whose import resets the descriptor in each child since Python 3.12

    async def main(handles_signals):
        if handles_signals:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)
        return in_a_process(context), await asyncio.to_thread(in_a_process, context)

    for handles_signals in (False, True):
        sigterm = "<Handlers.SIG_DFL: 0>" if handles_signals else repr(handler)
        for found in asyncio.run(main(handles_signals)):
            assert found[:3] == (-1, sigterm, repr(signal.default_int_handler)), found


def no_loop():
    assert in_a_process(context)[1:3] == (repr(handler), repr(signal.default_int_handler))


def early_signal():
    signal.set_wakeup_fd(wakeup.fileno())
    os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
    process = context.Process(target=print, args=("it ran",))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGTERM, process.exitcode
    with contextlib.suppress(BlockingIOError):
        print("the loop received", loop.recv(10))


globals()[sys.argv[1]]()
