"""An engine that loads weights, or finds them where an earlier one was killed. Arguments: [KEEP [POINT]]."""

import os
import signal
import sys

import numpy as np

import shmtensor as st


def load() -> dict:
    return {
        "layers": {f"layer {i}": np.full((100, 1000), i, "f4") for i in range(4)},
        "mapping": st.SharedDict({"words": {"weight": np.arange(6.0)}}),
        "tensor": st.ones(1000),
    }


keep = float(sys.argv[1]) if len(sys.argv) > 1 else True
st.publish("this run", os.getpid())  # not kept
try:
    weights = st.attach("weights")
    print("attached", end=" ")
except st.NotPublishedError:
    st.publish("weights", load(), keep=keep)
    weights = st.attach("weights")
    print("loaded", end=" ")
parts = [*weights["layers"].values(), weights["mapping"]["words"]["weight"], weights["tensor"].numpy()]
print(sum(float(part.sum()) for part in parts), flush=True)
if len(sys.argv) > 2:
    os.environ["SHMTENSOR_FAULT"] = sys.argv[2]
    st.publish("weights", load() | {"version": 2}, keep=True)
os.kill(os.getpid(), signal.SIGKILL)
