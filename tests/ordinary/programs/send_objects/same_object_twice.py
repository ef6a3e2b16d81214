"""An object that occurs several times, or contains itself, arrives with the same structure."""
# methods: forkserver server

import multiprocessing as mp
import sys

import numpy as np


class Node:
    def __init__(self, name):
        self.name, self.links = name, []


def answer(tasks, results):
    for value in iter(tasks.get, None):
        results.put(value)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.Queue(), mp.Queue()
    worker = mp.Process(target=answer, args=(tasks, results))
    worker.start()

    def there_and_back(value):
        tasks.put(value)
        return results.get()

    inner, text = [1, 2], "some text " * 50
    back = there_and_back([inner, inner, {"inner": inner}, (inner,)])
    print(back[0] is back[1] is back[2]["inner"] is back[3][0])
    back = there_and_back({"a": text, "b": [text]})
    print(back["a"] is back["b"][0])
    loop = [1]
    loop.append(loop)
    back = there_and_back(loop)
    print(back[1] is back, len(back))
    first, second = Node("first"), Node("second")
    first.links, second.links = [second, first], [first]
    back = there_and_back(first)
    print(back.links[1] is back, back.links[0].links[0] is back, back.links[0].name)
    for size in (3, 100_000):
        array = np.zeros(size)
        back = there_and_back([array, array, {"again": array}])
        back[0][0] = 5
        print(back[0] is back[1] is back[2]["again"], back[1][0], array[0])
        back = there_and_back((array, array[1:], array[:-1].reshape(-1, 1)))
        back[0][1] = 5
        print(back[1][0], back[2][1])
    dictionary = {}
    dictionary["self"] = dictionary
    print(there_and_back(dictionary)["self"]["self"].keys())
    print([part is None for part in there_and_back([None, (), 0])])
    tasks.put(None)
    worker.join()
