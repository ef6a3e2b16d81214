"""Ctrl-C: the program is interrupted while its workers wait; it ends them, and itself, in order."""
# methods: fork spawn server

import multiprocessing as mp
import os
import signal
import sys


def ignore_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def wait(seconds):
    signal.sigtimedwait([signal.SIGUSR1], seconds)
    return seconds


def consume(queue, ready):
    try:
        ready.set()
        queue.get()
    except KeyboardInterrupt:
        print("worker interrupted", flush=True)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2, ignore_interrupts) as pool:
        print(pool.map(abs, [-1, -2]))
        result = pool.map_async(wait, [1000, 1000])
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2, 5)
            result.get(500)
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("interrupted")
            pool.terminate()
        pool.join()
    queue, ready = mp.Queue(), mp.Event()
    process = mp.Process(target=consume, args=(queue, ready))
    process.start()
    ready.wait()
    while process.is_alive():  # a signal just before it reads leaves a queue of the standard library waiting
        os.kill(process.pid, signal.SIGINT)
        process.join(20)
    print(process.exitcode)
