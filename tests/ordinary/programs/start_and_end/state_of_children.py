"""What children have of the program: environment, folder, path, arguments, modules, globals."""

import multiprocessing as mp
import os
import sys
import tempfile

SETTINGS = {"debug": False}
LEVEL = 1


def report(results):
    results.put(
        {
            "variable": os.environ.get("PROGRAM_MODE"),
            "folder": os.getcwd(),
            "path": "/no/such/folder" in sys.path,
            "arguments": len(sys.argv),
            "constant": LEVEL,
            "settings": dict(SETTINGS),
            "umask": oct(os.umask(0o22)),
            "optimize": sys.flags.optimize,
            "method": mp.get_start_method() == sys.argv[1],
        }
    )


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROGRAM_MODE"] = "test"
        os.chdir(folder)
        sys.path.append("/no/such/folder")
        results = mp.Queue()
        process = mp.Process(target=report, args=(results,))
        process.start()
        found = results.get()
        process.join()
        print(found.pop("folder") == os.path.realpath(folder))
        os.chdir("/")
        for name, value in found.items():
            print(name, value)
