"""An inference server that is killed, and has its model again when it is restarted.

SHMTENSOR_SESSION=models python examples/restarted_server.py 8000

Kill it with SIGKILL and start it again. `shmtensor ls models` shows what is kept meanwhile, and
`shmtensor drop models vectors` frees it.
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np

import shmtensor as st


def load() -> np.ndarray:
    """Stand in for minutes of reading and converting files."""
    print("loading", flush=True)
    return np.random.default_rng(0).standard_normal((20_000, 64), dtype=np.float32)


class Nearest(BaseHTTPRequestHandler):
    """Answer GET /17 with the item whose vector is most similar to that of item 17."""

    def do_GET(self) -> None:
        similarity = vectors @ vectors[int(self.path[1:])]
        similarity[int(self.path[1:])] = -np.inf
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"%d\n" % similarity.argmax())


begin = time.perf_counter()
vectors = st.once("vectors", load, keep=True)  # one copy in shared memory, also if several servers start
server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Nearest)
print(f"port {server.server_port}: model after {time.perf_counter() - begin:.3f} s", flush=True)
server.serve_forever()
