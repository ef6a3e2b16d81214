"""A program: a killed worker leaves half a record in a file, and the next owner of its lock repairs that."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp

HALF = b"0123456789"
RECORD = HALF * 2 + b"\n"


def cut_half_record(path: Path) -> None:
    """Remove what follows the last whole record."""
    os.truncate(path, path.stat().st_size // len(RECORD) * len(RECORD))


def append(path: Path, lock: Any, *, is_killed: bool = False) -> bool:
    """Append a record; return True if the file had to be repaired."""
    repaired = False
    try:
        lock.acquire()
    except st.OwnerDied:
        cut_half_record(path)
        repaired = True
    try:
        with path.open("ab", buffering=0) as file:
            file.write(HALF)
            if is_killed:
                os.kill(os.getpid(), signal.SIGKILL)
            file.write(HALF + b"\n")
    finally:
        lock.release()
    return repaired


def work(path: Path, lock: Any, repairs: Any, number: int) -> None:
    """Append 50 records; every third worker is killed in its twentieth."""
    for i in range(50):
        if append(path, lock, is_killed=number % 3 == 0 and i == 19):
            st.atomic.add(repairs, 0, 1)


def main(method: str, path: Path) -> None:
    """Print how many records there are, whether all are whole, and how often one was repaired."""
    context: Any = mp.get_context(method)
    lock, repairs = st.Lock(), st.zeros(1, dtype="int64")
    workers = [context.Process(target=work, args=(path, lock, repairs, number)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if append(path, lock):
        st.atomic.add(repairs, 0, 1)
    content = path.read_bytes()
    print(len(content) // len(RECORD), content == RECORD * (len(content) // len(RECORD)), repairs.tolist())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
