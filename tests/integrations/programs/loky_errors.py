"""Tasks of loky's executor that cannot be pickled fail alone. Argument: "on" or "off"."""

import sys
from pickle import PicklingError

from loky import get_reusable_executor


class Raises:
    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


if __name__ == "__main__":
    if sys.argv[1] == "on":
        import shmtensor as st

        st.install("loky")
    executor = get_reusable_executor(2)
    for error in (ValueError("no"), SystemExit(3), KeyboardInterrupt()):
        try:
            executor.submit(id, Raises(error)).result(60)
        except PicklingError as raised:
            print(raised, type(raised.__cause__).__name__)
        print(executor.submit(abs, -1).result(60))
    executor.shutdown()
