"""Every row of the guide's table, for every combination of facts; start methods given by name."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import start_method as policy
from shmtensor.multiprocessing._lifetime import native_threads
from shmtensor.multiprocessing.start_method import Facts
from tests.helpers.children import run_command, run_program, run_python, write_program

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "starting-workers.md"
YES_NO = {"yes": [True], "no": [False], "-": [True, False]}
DEFAULTS = ["fork", "forkserver", "spawn"]


def rows() -> list[list[str]]:
    lines = GUIDE.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| own_process |"))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def facts_of(row: list[str]) -> list[Facts]:
    *choices, default, server = row[:6]
    values = [YES_NO[cell] for cell in choices]
    values += [DEFAULTS if default == "-" else [default], YES_NO[server]]
    return [Facts(*combination) for combination in itertools.product(*values)]


def first_row_that_fits(facts: Facts) -> list[str]:
    return next(row for row in rows() if facts in facts_of(row))


EVERYTHING = [
    Facts(*combination) for combination in itertools.product(*[[True, False]] * 4, DEFAULTS, [True, False])
]


@pytest.mark.parametrize("row", rows(), ids=" ".join)
def test_first_matching_row_decides(row) -> None:
    deciding = [facts for facts in facts_of(row) if first_row_that_fits(facts) == row]
    assert deciding, "no case reaches this row"
    for facts in deciding:
        decision = policy.decide(facts)
        chosen = facts.default if row[6] == "the default" else row[6]
        assert (decision.method, decision.replaced) == (chosen, row[7] == "yes"), facts


def test_table_covers_every_case() -> None:
    assert all(first_row_that_fits(facts) for facts in EVERYTHING)


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv(policy.VARIABLE, raising=False)
    monkeypatch.setattr(policy, "_warned", False)


def given(monkeypatch, **changes):
    """Set the facts to those of a plain script, with changes."""
    facts = {"owned": False, "cuda": False, "threads": False, "main": True, "default": "fork", "server": True}
    facts |= changes
    monkeypatch.setattr(policy.Facts, "of_this_process", classmethod(lambda cls: Facts(**facts)))


def test_auto_warns_once_with_method_reason_and_remedy(monkeypatch) -> None:
    given(monkeypatch, cuda=True)
    with pytest.warns(UserWarning, match="by server instead of fork: CUDA is initialised") as caught:
        contexts = [mp.get_context("auto") for _ in range(2)]
    assert contexts[0].get_start_method() == "server"
    assert len(caught) == 1
    assert "SHMTENSOR_START_METHOD" in str(caught[0].message)
    assert "explain_start_method" in str(caught[0].message)


def test_fork_by_name_raises_after_cuda(monkeypatch) -> None:
    monkeypatch.setattr(policy, "cuda_is_initialised", lambda: True)
    with pytest.raises(ValueError, match="start_method='fork': CUDA is initialised"):
        mp.get_context("fork")
    with pytest.raises(ValueError, match="CUDA is initialised"):
        mp.spawn(print, start_method="fork")
    assert mp.get_context("spawn").get_start_method() == "spawn"
    monkeypatch.setenv(policy.VARIABLE, "fork")
    with pytest.raises(ValueError, match="SHMTENSOR_START_METHOD=fork: CUDA is initialised"):
        mp.get_context("auto")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", "server"])
def test_environment_variable_decides_auto_and_the_default(monkeypatch, method) -> None:
    given(monkeypatch)
    monkeypatch.setenv(policy.VARIABLE, method)
    assert mp.get_context("auto").get_start_method() == method
    assert mp.get_context().get_start_method() == method
    assert mp.get_start_method() == method
    assert mp.get_context("spawn").get_start_method() == "spawn", "a method given by name is used"


def test_unknown_method_error_names_its_source(monkeypatch) -> None:
    with pytest.raises(
        ValueError, match=r"start_method='thread': cannot find context for 'thread'; choose one"
    ):
        mp.get_context("thread")
    monkeypatch.setenv(policy.VARIABLE, "forkk")
    with pytest.raises(ValueError, match="SHMTENSOR_START_METHOD=forkk: cannot find context"):
        mp.get_context()


def test_facts_of_this_process(monkeypatch) -> None:
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    assert Facts.of_this_process().threads
    event.set()
    thread.join()
    assert Facts.of_this_process().default == multiprocessing.get_start_method()


def test_cuda_is_detected_by_device_file_and_torch(monkeypatch, tmp_path) -> None:
    assert not policy.cuda_is_initialised()
    file = tmp_path / "nvidia-uvm"
    file.touch()
    real = os.readlink
    monkeypatch.setattr(
        os, "readlink", lambda path: "/dev/nvidia-uvm" if real(path) == str(file) else real(path)
    )
    assert not policy.cuda_is_initialised()
    with file.open():
        assert policy.cuda_is_initialised()
    assert not policy.cuda_is_initialised()

    torch_cuda = ModuleType("torch.cuda")
    monkeypatch.setitem(sys.modules, "torch.cuda", torch_cuda)  # as while a thread imports it
    assert not policy.cuda_is_initialised()
    torch_cuda.is_initialized = lambda: True
    assert policy.cuda_is_initialised()


SEES_MAIN = """
    from shmtensor.multiprocessing.start_method import Facts
    import shmtensor.multiprocessing as mp
    before = Facts.of_this_process()
    mp.own_process()
    print(before.main, before.owned, Facts.of_this_process().owned)
"""


def test_importable_main_is_detected(tmp_path) -> None:
    assert run_python(SEES_MAIN).stdout == "False False True\n"
    assert run_program(write_program(tmp_path, SEES_MAIN)).stdout == "True False True\n"
    module = run_command([sys.executable, "-m", "program"], env={"PYTHONPATH": str(tmp_path)})
    assert module.stdout == "True False True\n"


@pytest.mark.parametrize("kind", ["package", "folder"])
def test_main_of_a_package_is_not_importable(tmp_path, kind) -> None:
    """Regression: "auto" chose spawn, whose workers do not import a ``__main__.py``."""
    package = tmp_path / "package"
    package.mkdir()
    write_program(package, SEES_MAIN).rename(package / "__main__.py")
    arguments = ["-m", "package"] if kind == "package" else [str(package)]
    done = run_command([sys.executable, *arguments], env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout == "False False True\n", done.stderr


def test_explain_prints_the_choice_and_all_facts(monkeypatch, capsys) -> None:
    given(monkeypatch, threads=True, server=False)
    mp.explain_start_method()
    text = capsys.readouterr().out
    assert text.startswith("start method: spawn, because other threads run in this process")
    for word in ("own_process", "CUDA is not", "threads other", "__main__ can be", "is fork", "cloudpickle"):
        assert word in text
    monkeypatch.setenv(policy.VARIABLE, "forkserver")
    mp.explain_start_method()
    assert "start method: forkserver, because SHMTENSOR_START_METHOD is set to it" in capsys.readouterr().out


def test_package_methods_can_be_the_default() -> None:
    done = run_python(
        """
        import os
        import shmtensor.multiprocessing as mp
        mp.set_start_method("server")
        assert mp.get_start_method() == "server"
        def work(queue):
            queue.put((os.getpid(), mp.get_start_method(allow_none=True)))
        queue = mp.SimpleQueue()
        process = mp.Process(target=work, args=(queue,))
        process.start()
        pid, theirs = queue.get()
        assert pid == process.pid
        process.join()
        try:
            mp.set_start_method("fork")
        except RuntimeError as error:
            assert "already" in str(error)
        else:
            raise SystemExit("it could be set twice")
        mp.set_start_method("fork", force=True)
        assert mp.get_start_method() == "fork"
        print("done")
        """
    )
    assert done.stdout == "done\n", done.stderr


@pytest.mark.thorough
def test_children_inherit_the_start_method(tmp_path) -> None:
    """Regression: workers of server had its default, and forked children that of their parent."""
    done = run_program(
        write_program(
            tmp_path,
            """
            import shmtensor.multiprocessing as mp

            def report(pipe):
                pipe.send(mp.get_start_method())

            if __name__ == "__main__":
                for default in ("server", "spawn"):
                    mp.set_start_method(default, force=True)
                    for context in [mp, *map(mp.get_context, ("fork", "spawn", "forkserver", "server"))]:
                        pipe, end = context.Pipe()
                        process = context.Process(target=report, args=(end,))
                        process.start()
                        assert pipe.poll(60)
                        assert pipe.recv() == context.get_start_method()
                        process.join()
            """,
        )
    )
    assert done.returncode == 0, done.stderr


NATIVE_THREAD = """
    import ctypes, multiprocessing, os, threading
    import shmtensor.multiprocessing as mp
    from shmtensor.multiprocessing.start_method import Facts

    multiprocessing.set_start_method("fork")
    libc = ctypes.CDLL(None)
    end = ctypes.create_string_buffer(64)  # a semaphore
    libc.sem_init(end, 0, 0)
    thread = ctypes.c_ulong()
    wait = ctypes.cast(libc.sem_wait, ctypes.c_void_p)
    assert libc.pthread_create(ctypes.byref(thread), None, wait, end) == 0
    assert threading.active_count() == 1
"""


def test_native_thread_excludes_fork() -> None:
    """Regression: a fork was "safe in this process" beside the threads of polars, torch or OpenMP."""
    done = run_python(
        NATIVE_THREAD
        + """
    assert Facts.of_this_process().threads
    print(mp.get_context("auto").get_start_method() in {"server", "spawn"})
    mp.explain_start_method()
    """
    )
    assert done.stdout.startswith("True\nstart method: "), done.stderr
    assert "threads other than the main one run, of Python or native" in done.stdout
    assert "other threads run in this process" in done.stderr
    assert done.stderr.count("Warning") == 1, done.stderr


def test_native_thread_that_ends_before_a_fork_allows_it() -> None:
    """OpenBLAS ends its threads like this."""
    done = run_python(
        NATIVE_THREAD
        + """
    @ctypes.CFUNCTYPE(None)
    def end_thread():
        if thread.value:
            libc.sem_post(end)
            libc.pthread_join(thread, None)
            thread.value = 0

    libc.__register_atfork(end_thread, None, None, None)
    assert len(os.listdir("/proc/self/task")) == 2
    print(mp.get_context("auto").get_start_method())
    print(len(os.listdir("/proc/self/task")))
    """
    )
    assert done.stdout == "fork\n1\n", done.stderr


def test_thread_of_jemalloc_allows_a_fork() -> None:
    """It exists after `import pandas`, which imports pyarrow."""
    done = run_python(
        NATIVE_THREAD
        + """
    assert libc.pthread_setname_np(thread, b"jemalloc_bg_thd") == 0
    print(mp.get_context("auto").get_start_method())
    """
    )
    assert done.stdout == "fork\n", done.stderr


def test_joined_thread_is_not_taken_for_one_that_runs_if_processors_are_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: after 0.1 s without a processor, workers were not forked, with a warning."""
    looks = iter([False, False, True])
    monkeypatch.setattr(native_threads, "_is_only_thread", lambda: next(looks))
    monkeypatch.setattr(native_threads, "time", SlowClock)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert not native_threads.other_threads_run(may_fork=False)


class SlowClock:
    """Of a process that gets a processor every 0.2 s."""

    monotonic = staticmethod(itertools.count(0, 0.2).__next__)
    sleep = staticmethod(lambda _: None)
