"""Four ranks meet at a barrier; one of them is killed between two rounds."""

# not compared: the standard library waits indefinitely
import multiprocessing as mp
import os
import signal
import sys
import threading


def run(rank, barrier, pids, rounds):
    pids[rank] = os.getpid()
    for number in range(rounds):
        if rank == 2 and number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            barrier.wait(60)
        except threading.BrokenBarrierError as error:
            sys.exit(40 + number if f"process {pids[2]}" in str(error) else 1)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    barrier, pids = mp.Barrier(4), mp.Array("i", 4)
    ranks = [mp.Process(target=run, args=(rank, barrier, pids, 10)) for rank in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    print([rank.exitcode for rank in ranks], barrier.broken)
    barrier.reset()
    ranks = [mp.Process(target=run, args=(rank, barrier, pids, 3)) for rank in (0, 1, 3, 0)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    print([rank.exitcode for rank in ranks], barrier.broken)

# > [45, 45, -9, 45] True
# > [0, 0, 0, 0] False
