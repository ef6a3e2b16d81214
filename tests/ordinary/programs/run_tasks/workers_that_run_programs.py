"""Tasks run other programs, write temporary files, and set variables of their environment."""
# methods: fork spawn

import multiprocessing as mp
import os
import subprocess
import sys
import tempfile


def run(number):
    os.environ["NUMBER"] = str(number)
    command = [sys.executable, "-S", "-c", "import os, sys; print(os.environ['NUMBER']); sys.exit(2)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    with tempfile.TemporaryFile("w+") as file:
        file.write(done.stdout * 2)
        file.seek(0)
        return file.read().split(), done.returncode


def fail(_):
    subprocess.run([sys.executable, "-S", "-c", "raise SystemExit(3)"], check=True)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(2) as pool:
        print(pool.map(run, range(3)), os.environ.get("NUMBER"))
        try:
            pool.apply(fail, (0,))
        except subprocess.CalledProcessError as error:
            print(error.returncode, error.cmd[1:3])
