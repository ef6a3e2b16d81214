"""Processes change dicts, lists, namespaces and others of a manager, also nested ones."""
# methods: fork server

import multiprocessing as mp
import sys


def change(d, numbers, namespace, lock, value, array, event, queue, barrier):
    with lock:
        d[1] = "1"
        d["2"] = 2
        d[0.25] = None
        d["nested"]["inner"] = "changed"
        numbers.reverse()
        numbers.append(numbers[0] + 1)
        namespace.x += 10
        value.value = 9
        array[0] = 7
    queue.put("from the child")
    event.set()
    barrier.wait()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Manager() as manager:
        d, numbers, namespace = manager.dict(), manager.list(range(5)), manager.Namespace(x=1)
        d["nested"] = manager.dict()
        others = manager.Lock(), manager.Value("i", 0), manager.Array("i", [1, 2]), manager.Event()
        queue, barrier = manager.Queue(), manager.Barrier(2)
        process = mp.Process(target=change, args=(d, numbers, namespace, *others, queue, barrier))
        process.start()
        others[3].wait()
        barrier.wait()
        process.join()
        print(
            {key: d[key] for key in (1, "2", 0.25)}, dict(d["nested"]), len(d), "missing" in d, d.get("x", 5)
        )
        print(list(numbers), numbers[1:3], len(numbers), sorted(numbers), numbers.index(2))
        print(namespace.x, others[1].value, others[2][:], others[3].is_set(), queue.get(), queue.empty())
        numbers.extend([8, 9])
        numbers.pop()
        d.update(a=1)
        print(numbers[-1], d.pop("a"), d.setdefault("b", []), str(numbers), type(d).__name__)
        try:
            d["no such key"]
        except KeyError as error:
            print(repr(error))
