"""Map and reduce: words of files are counted by workers, partial results are merged."""
# methods: fork forkserver

import collections
import multiprocessing as mp
import pathlib
import sys
import tempfile

STOP = {"the", "a"}


def count(path):
    with path.open() as file:
        words = (word.strip(".,").lower() for line in file for word in line.split())
        return collections.Counter(word for word in words if word not in STOP)


def longest(path):
    return path.name, max(path.read_text().split(), key=len)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / f"{number}.txt" for number in range(6)]
        for number, path in enumerate(paths):
            path.write_text(f"The quick brown fox, number {number}.\n" * (number + 1) + "a word " * number)
        with mp.Pool(2) as pool:
            total = sum(pool.imap_unordered(count, paths, chunksize=2), collections.Counter())
            print(total.most_common(3), total["word"], total["the"])
            print(dict(pool.imap(longest, paths)))
            try:
                pool.map(count, [*paths, pathlib.Path("/no/such/file")])
            except FileNotFoundError as error:
                print(error.filename, error.errno)
