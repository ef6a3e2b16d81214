"""Processes whose clocks differ; `test_system_limits.py` runs it. Arguments: SOCKET OFFSET."""

import subprocess
import sys
import time
from multiprocessing.connection import Client, Listener

import shmtensor as st


def main():
    place, offset = sys.argv[1:]
    if offset == "other":
        with Client(place) as connection:
            tensor = connection.recv()
            tensor += 1
            connection.send(tensor)
            connection.send(st.full(5, 2))
            connection.recv()  # the other one has looked
        return
    here = st.zeros(5)
    with Listener(place) as listener:
        shift = ["unshare", "--time", "--fork", "--monotonic", offset, "--boottime", offset]
        other = subprocess.Popen([*shift, sys.executable, __file__, place, "other"])
        with listener.accept() as connection:
            connection.send(here)
            back = connection.recv()
            while not connection.poll(1):
                pass
            if int(offset) > 0:
                st.gc(older_than=60)  # its message is from the future: not old, that is
            made = connection.recv()
            assert back.storage() is here.storage()
            assert (here.tolist(), made.tolist()) == ([1] * 5, [2] * 5)
            time.sleep(0.3)  # time for a manager that believes the other one dead
            assert made.tolist() == [2] * 5
            connection.send(None)
        assert other.wait(30) == 0
    print("fine")


if __name__ == "__main__":
    main()
