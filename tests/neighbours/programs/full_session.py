"""A child of a process in a session that has no slot left; `test_full_sessions.py` runs it."""

import os
import resource
import socket

import shmtensor as st
from tests.helpers.manager_messages import hello

resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
tensor = st.full(1000, 7)
session = st.stats()["session"]
connections = []
for _ in range(1023):
    connections.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    connections[-1].connect(f"\0shmtensor-{session}")
    connections[-1].send(hello(session))
    _, descriptors, _, _ = socket.recv_fds(connections[-1], 1024, 1)
    os.close(*descriptors)
assert st.stats()["processes"] == 1024
if (pid := os.fork()) == 0:
    try:
        st.ones(3)
    except st.SessionError as error:
        print(error, flush=True)
    os._exit(tensor.tolist() != [7] * 1000)
assert os.waitpid(pid, 0)[1] == 0
