"""A library chooses a start method by a context, whatever the program has chosen."""

import multiprocessing as mp
import sys


def work(queue, value):
    queue.put((mp.get_start_method(allow_none=True) is not None, value))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    try:
        mp.set_start_method("spawn")
    except RuntimeError as error:
        print(error)
    print({"fork", "spawn", "forkserver"} <= set(mp.get_all_start_methods()))
    for method in ("fork", "forkserver", None):
        context = mp.get_context(method)
        print(context.get_start_method() == (method or sys.argv[1]), context.cpu_count() == mp.cpu_count())
        queue = context.Queue()
        process = context.Process(target=work, args=(queue, method is None))
        process.start()
        print(queue.get())
        process.join()
        with context.Pool(1) as pool:
            print(pool.map(abs, [-1]))
    for wrong in ("", "threads"):
        try:
            mp.get_context(wrong)
        except ValueError as error:
            print(str(error).partition(";")[0].rpartition(": ")[2])
    mp.set_start_method(sys.argv[1], force=True)
    print(mp.get_start_method() == sys.argv[1])
