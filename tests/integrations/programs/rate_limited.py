"""A WSGI application: at most two requests of all workers are in the slow part at the same time."""

import os
import signal
import time

import shmtensor as st

units = st.once("units", lambda: st.BoundedSemaphore(2))
counts = st.once("counts", lambda: st.zeros(2, "int64"))  # of requests there: now, and at most


def application(environ, start_response):
    with units:
        now = st.atomic.add(counts, 0, 1) + 1
        st.atomic.maximum(counts, 1, now)
        time.sleep(0.02)
        if environ["PATH_INFO"] == "/crash":
            os.kill(os.getpid(), signal.SIGKILL)
        st.atomic.add(counts, 0, -1)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(st.atomic.load(counts, 1)).encode()]
