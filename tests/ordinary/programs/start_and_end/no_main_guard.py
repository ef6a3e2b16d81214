"""A pool is made without `if __name__ == "__main__":`; the error names the remedy."""
# methods: spawn forkserver
# not compared: the standard library starts workers without end

import multiprocessing as mp
import sys


def square(number):
    return number * number


with mp.get_context(sys.argv[1]).Pool(2) as pool:
    try:
        print(pool.map(square, range(5)))
    except mp.ProcessError as error:
        print('`if __name__ == "__main__":`' in str(error))

# > True
