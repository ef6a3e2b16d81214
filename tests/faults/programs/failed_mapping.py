"""A message that is read again after its bytes could not be mapped; `test_system_limits.py` runs it."""

import os
import pickle
import resource
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import shmtensor as st
from shmtensor import _core

reader, writer = os.pipe()
if os.fork() == 0:
    with _core.SendScope() as message:
        tensors = st.full(3, 1).as_readonly(), st.full(3, 2)
        with open(writer, "wb") as pipe:
            pipe.write(pickle.dumps([bytes(ForkingPickler.dumps(tensor)) for tensor in tensors]))
        message.delivered()
    os._exit(0)
os.close(writer)
with open(reader, "rb") as pipe:
    first, second = pickle.load(pipe)
os.wait()
readonly = pickle.loads(first)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), resource.RLIM_INFINITY))
with pytest.raises(OSError, match="RLIMIT_AS"):
    pickle.loads(second)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert pickle.loads(second).tolist() == [2, 2, 2]
assert readonly.tolist() == [1, 1, 1]
