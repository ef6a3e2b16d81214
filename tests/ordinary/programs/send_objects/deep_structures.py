"""Deep and long structures: nested lists, linked nodes, trees, a graph, large dicts with tuples as keys."""
# methods: spawn server

import multiprocessing as mp
import sys


class Node:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right

    def total(self):
        return self.value + sum(child.total() for child in (self.left, self.right) if child)


def make_tree(depth):
    return Node(depth, make_tree(depth - 1), make_tree(depth - 1)) if depth else None


def depth_of(nested):
    depth = 0
    while nested:
        nested, depth = nested[0], depth + 1
    return depth


def answer(connection):
    for task in iter(connection.recv, None):
        if isinstance(task, Node):
            connection.send((task.total(), task))
        elif isinstance(task, list):
            connection.send((depth_of(task), task))
        else:
            connection.send((sorted(task)[-1], task))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    ours, theirs = mp.Pipe()
    worker = mp.Process(target=answer, args=(theirs,))
    worker.start()
    nested, chain = [], Node(0)
    for number in range(150):
        nested, chain = [nested], Node(number, chain)
    ours.send(nested)
    depth, back = ours.recv()
    print(depth, back == nested)
    for tree in (make_tree(10), chain):
        ours.send(tree)
        total, back = ours.recv()
        print(total, back.total(), back is not tree)
    table = {(x, y): {"sum": x + y, "name": f"{x},{y}"} for x in range(60) for y in range(60)}
    ours.send(table)
    last, back = ours.recv()
    print(last, back == table)
    endless = []
    for _ in range(100_000):
        endless = [endless]
    try:
        ours.send(endless)
    except RecursionError as error:
        print(type(error).__name__)
    ours.send([[]])
    print(ours.recv())
    ours.send(None)
    worker.join()
