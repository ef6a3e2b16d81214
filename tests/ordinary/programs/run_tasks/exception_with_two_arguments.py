"""A task raises an exception that cannot be unpickled; the pool goes on."""
# not compared: the standard library hangs

import multiprocessing as mp
import sys


class ParseError(Exception):
    def __init__(self, file, line):
        super().__init__(f"{file}:{line}")
        self.file, self.line = file, line


def parse(name):
    if name == "bad.csv":
        raise ParseError(name, 3)
    return name.upper()


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2) as pool:
        try:
            pool.map(parse, ["a.csv", "bad.csv", "b.csv"])
        except Exception as error:
            print(str(error).partition(":")[0])
            print("bad.csv:3" in str(error.__cause__))
        print(pool.map(parse, ["a.csv", "b.csv"]))

# > the exception of parse cannot be unpickled
# > True
# > ['A.CSV', 'B.CSV']
