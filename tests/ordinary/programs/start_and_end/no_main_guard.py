"""A pool is made without `if __name__ == "__main__":`; the error names the remedy."""
# methods: spawn forkserver
# not compared: the standard library starts workers without end

import multiprocessing as mp
import sys


def square(number):
    return number * number


try:
    with mp.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(square, range(5)))
except (mp.ProcessError, ChildProcessError) as error:  # the latter from the fork server since Python 3.13.8
    print("`if __name__ == " in str(error))

# > True
