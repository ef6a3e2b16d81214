"""Processes of a session whose manager has few descriptors; `test_full_sessions.py` runs it."""

import os
import resource

import shmtensor as st

resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
st.empty(1)
end, never = os.pipe()
pids = []
answer = b""
while answer in (b"", b"joined") and len(pids) < 40:
    ours, theirs = os.pipe()
    pids.append(os.fork())
    if pids[-1] == 0:
        os.close(never)
        try:
            kept = st.full(1000, len(pids))
            os.write(theirs, b"joined")
        except st.SessionError as error:
            os.write(theirs, str(error).encode())
        os.read(end, 1)
        os._exit(0)
    os.close(theirs)
    answer = os.read(ours, 1000)
    os.close(ours)
assert st.stats()["processes"] == len(pids), "those before are served"
os.close(never)
for pid in pids:
    assert os.waitpid(pid, 0)[1] == 0
print(len(pids), answer.decode())
