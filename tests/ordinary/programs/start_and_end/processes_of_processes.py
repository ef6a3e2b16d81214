"""Children start children, and each waits for its own."""
# methods: fork server

import multiprocessing as mp
import sys


def tree(depth, results):
    process = mp.current_process()
    results.put((len(process.name.split(":")), depth, mp.parent_process() is not None))
    children = [mp.Process(target=tree, args=(depth - 1, results)) for _ in range(2 if depth == 2 else 1)]
    for child in children if depth else ():
        child.start()
    for child in children if depth else ():
        child.join()
        results.put(("exit code", child.exitcode))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    results = mp.SimpleQueue()
    process = mp.Process(target=tree, args=(2, results))
    process.start()
    process.join()
    found = []
    while not results.empty():
        found.append(results.get())
    print(*sorted(found, key=str), sep="\n")
    print(process.exitcode)
