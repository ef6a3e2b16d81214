"""Workers cannot connect to the database; the program gets the reason."""
# not compared: the standard library starts workers without end

import multiprocessing as mp
import sys


def connect(host):
    raise ConnectionError(f"cannot reach {host}")


def query(number):
    return number


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2, initializer=connect, initargs=("db.local",)) as pool:
        try:
            pool.map(query, range(10))
        except mp.ProcessError as error:
            print("cannot reach db.local" in str(error))

# > True
