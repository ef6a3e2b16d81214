"""A forked child has no part in the event loop of its parent, from its first instruction."""

from __future__ import annotations

from tests.helpers.children import run_program, run_python, write_program

CHILD = """
    import os, signal, socket, sys, threading
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
"""


def test_child_of_an_event_loop_handles_signals_as_a_new_program() -> None:
    done = run_python(
        CHILD
        + """
    signal.set_wakeup_fd(wakeup.fileno())
    expected = (-1, "<Handlers.SIG_DFL: 0>", repr(signal.default_int_handler), "<Handlers.SIG_IGN: 1>",
                "<Handlers.SIG_DFL: 0>", "<Handlers.SIG_DFL: 0>", [signal.SIGUSR2])
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
    """
    )
    assert done.returncode == 0, done.stderr


def test_child_of_asyncio_handles_signals_as_a_new_program() -> None:
    """Regression: since Python 3.12 asyncio resets the descriptor in the child, but not the handlers."""
    done = run_python(
        CHILD
        + """
    import asyncio

    async def main(handles_signals):
        if handles_signals:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)
        return in_a_process(context), await asyncio.to_thread(in_a_process, context)

    for handles_signals in (False, True):
        sigterm = "<Handlers.SIG_DFL: 0>" if handles_signals else repr(handler)
        for found in asyncio.run(main(handles_signals)):
            assert found[:3] == (-1, sigterm, repr(signal.default_int_handler)), found
    """
    )
    assert done.returncode == 0, done.stderr


def test_child_inherits_handlers_of_a_program_without_event_loop() -> None:
    done = run_python(
        CHILD
        + """
    assert in_a_process(context)[1:3] == (repr(handler), repr(signal.default_int_handler))
    """
    )
    assert done.returncode == 0, done.stderr


def test_signal_at_the_begin_of_a_child_reaches_the_child_alone() -> None:
    """Regression: before the child had reset anything, the loop of the parent received its signals."""
    done = run_python(
        CHILD
        + """
    signal.set_wakeup_fd(wakeup.fileno())
    os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
    process = context.Process(target=print, args=("it ran",))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGTERM, process.exitcode
    try:
        print("the loop received", loop.recv(10))
    except BlockingIOError:
        pass
    """
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_child_is_killed_if_a_handler_raises_right_after_the_fork(tmp_path) -> None:
    """Regression: the child ran on, and no Process object knew of it."""
    program = """
        import os, signal, sys, time
        import shmtensor.multiprocessing as mp

        class Interrupted(Exception):
            pass

        def handler(number, frame):
            raise Interrupted

        signal.signal(signal.SIGUSR1, handler)
        os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGUSR1))
        process = mp.get_context("fork").Process(target=time.sleep, args=(1000,))
        try:
            process.start()
        except Interrupted:
            print(process.exitcode)
    """
    done = run_program(write_program(tmp_path, program))
    assert (done.returncode, done.stdout) == (0, "-9\n"), done.stderr
