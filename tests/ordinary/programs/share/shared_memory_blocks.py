"""SharedMemory and ShareableList: names, sizes, changes by a child, a manager of them."""
# methods: fork server

import multiprocessing as mp
import sys
from multiprocessing import shared_memory
from multiprocessing.managers import SharedMemoryManager


def change(name, items):
    block = shared_memory.SharedMemory(name)
    block.buf[:5] = b"hello"
    block.close()
    items[1] = "by the child"
    items[0] += 1
    items.shm.close()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    block = shared_memory.SharedMemory(create=True, size=100)
    items = shared_memory.ShareableList([1, "a text that is long", 2.5, None, True, b"bytes"])
    process = mp.Process(target=change, args=(block.name, items))
    process.start()
    process.join()
    print(
        process.exitcode, bytes(block.buf[:7]), block.size >= 100, list(items), len(items), items.index(2.5)
    )
    for shared in (block, items.shm):
        shared.close()
        shared.unlink()
    try:
        shared_memory.SharedMemory("no_such_block")
    except FileNotFoundError as error:
        print(type(error).__name__)
    with SharedMemoryManager(ctx=mp.get_context()) as manager:
        first, second = manager.SharedMemory(16), manager.ShareableList(range(5))
        first.buf[0] = 3
        print(first.buf[0], sum(second))
