"""A child handles SIGTERM and ends in order; its parent has a handler, too, and an alarm."""
# methods: spawn server

import multiprocessing as mp
import os
import signal
import sys


def serve(ready, results):
    def stop(number, frame):
        results.put(("stopped by", signal.Signals(number).name))
        sys.exit(4)

    signal.signal(signal.SIGTERM, stop)
    results.put(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    ready.set()
    while True:
        signal.pause()


def note(number, frame):
    received.append(signal.Signals(number).name)


received = []

if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    signal.signal(signal.SIGUSR1, note)
    ready, results = mp.Event(), mp.SimpleQueue()
    process = mp.Process(target=serve, args=(ready, results))
    process.start()
    ready.wait()
    process.terminate()
    process.join()
    print(results.get(), results.get(), process.exitcode)
    os.kill(os.getpid(), signal.SIGUSR1)
    print(received)
    signal.signal(signal.SIGALRM, note)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    queue = mp.Queue()
    try:
        queue.get(timeout=0.3)  # goes on after the signal
    except Exception as error:
        print(type(error).__name__, received)
