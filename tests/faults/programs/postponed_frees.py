"""A process that frees a block when it is short of address space; `test_postponed_frees.py` runs it."""

import multiprocessing
import pickle
import resource
from multiprocessing.reduction import ForkingPickler

import shmtensor as st
import shmtensor.multiprocessing as mp


def send_to_itself(pipe):
    tensor = pipe.recv()
    pickle.loads(bytes(ForkingPickler.dumps(tensor)))  # its table may have tickets from now on
    del tensor
    pipe.send_bytes(b"released")
    pipe.recv_bytes()


context = mp.get_context("fork")
ours, theirs = multiprocessing.Pipe()
process = context.Process(target=send_to_itself, args=(theirs,))
process.start()
tensor = st.ones(1000)
ours.send(tensor)
ours.recv_bytes()
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), before[1]))
del tensor
resource.setrlimit(resource.RLIMIT_AS, before)
print(st.stats()["blocks"])
ours.send_bytes(b"")
process.join()
