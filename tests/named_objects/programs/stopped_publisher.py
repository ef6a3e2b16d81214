"""A publisher that is stopped at a point, and killed; `test_replacing.py` runs it. Argument: POINT."""

import os
import signal
import sys

import numpy as np

import shmtensor as st
from tests.helpers.children import kill, wait_until

st.publish("weights", np.zeros(1000))
blocks = st.stats()["blocks"]
if (child := os.fork()) == 0:
    os.environ["SHMTENSOR_FAULT"] = sys.argv[1]
    os.environ["SHMTENSOR_FAULT_SIGNAL"] = str(int(signal.SIGSTOP))
    st.publish("weights", np.ones(1000))
    os._exit(0)
assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
print(int(st.attach("weights").mean()), int(st.once("weights", lambda: None).mean()))
kill(child)
wait_until(lambda: st.stats()["processes"] == 1)
print(int(st.attach("weights").mean()))
st.gc(older_than=0)
assert st.stats()["blocks"] == blocks, "nothing is left of the other object"
st.publish("weights", np.full(1000, 2))
print(int(st.attach("weights").mean()))
st.unpublish("weights")
st.gc(older_than=0)
assert st.stats()["blocks"] == 0
