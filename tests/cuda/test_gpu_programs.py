"""The GPU programs run on the simulator; its answers are the rules that it implements."""

from __future__ import annotations

import ast
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from probes.facts import EXPERIMENTS
from probes.summary import found_in
from tests.cuda.harness import ROOT, Machine
from tests.helpers.children import (
    is_running,
    output,
    run_command,
    run_example,
    run_python,
    wait_until,
    write_program,
)


@pytest.fixture
def simulator(tmp_path) -> Machine:
    (tmp_path / "memory").mkdir()
    return Machine("sim", tmp_path / "memory")


def run(
    program: str, simulator: Machine, *options: str, status: int = 0, timeout: float = 100, **env: str
) -> str:
    done = run_command(
        [sys.executable, "-m", f"probes.{program}", *options], timeout=timeout, env=simulator.env | env
    )
    assert done.returncode == status, done
    return done.stdout


def answers_in(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["answers"]


@pytest.mark.thorough
def test_demo_gives_a_table_on_the_gpu_to_a_worker(simulator) -> None:
    done = run_example("demo", "--workers", "2", "--seconds", "0.1", timeout=110, env=simulator.env)
    assert done.returncode == 0, done
    assert not done.stderr
    assert re.search(r"^GPU: [\d.]+ ms through the host, [\d.]+ ms as a handle$", done.stdout, re.MULTILINE)


def test_gpu_report_counts_tests_and_rounds_times(tmp_path) -> None:
    file = tmp_path / "tests.xml"
    cases = (
        '<testcase/><testcase/><testcase><failure/></testcase><testcase><skipped message="why"/></testcase>'
    )
    file.write_text(f"<testsuite>{cases}</testsuite>")
    assert found_in(file) == {"passed": 2, "failed": 1, "skipped": {"why": 1}}
    file.write_text(f"<testsuite>{cases}")
    assert "tests.xml" in found_in(file)["error"], "the file of a killed pytest"
    file = tmp_path / "flight.json"
    file.write_text('{"date": "2030-01-01", "results": {"put": [0.0865665, 798.3446], "bytes": 81768814744}}')
    assert found_in(file) == {"put": [0.08657, 798.3], "bytes": 81768814744}


@pytest.mark.thorough
def test_gpu_report_is_written(simulator, tmp_path) -> None:
    """A failed step does not stop the next one, and one file has all results."""
    programs = ("round_trip", "flight", "weights", "values", "batches", "facts")
    # It takes less than a minute. An experiment for which no time is left has no answer.
    run("report", simulator, str(tmp_path / "out"), *programs, "--seconds", "240", status=1, timeout=270)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    statuses = {name: step["status"] for name, step in report["steps"].items()}
    missing = 1  # torch, for the weights
    expected = {"round_trip": 2, "flight": 2, "weights": missing, "values": 0, "batches": 2, "facts": 0}
    assert statuses == expected
    assert report["values"]["shmtensor, kept"] == {"kept": {"MiB": ANY}, "left": {"MiB": 0}}
    assert report["values"]["shmtensor, kept"]["kept"]["MiB"] > 0
    assert report["values"]["shmtensor, newest"] == {"left": {"MiB": 0}}
    assert not any(step["left running"] for step in report["steps"].values())
    assert report["machine"]["processors"]
    log = (tmp_path / "out" / "report.log").read_text()
    assert "times on a simulated driver mean nothing" in log
    assert "answers of the SIMULATED driver" in log
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"report.json", "report.log"}

    answers = report["facts"]
    for card in ("nvidia-h100", "nvidia-h200"):
        compare_with_a_gpu(answers, card)
    assert "cuMemUnmap" in answers["time_import_and_mapping"]["64 MiB"]["calls"]
    since = answers["device_work_after_process_exit"]["changes since"]
    assert since["the first look"] > 0, "its work was seen"
    assert since["the socket's end"] == since["the pidfd's end"] == 0


# Where the simulator differs from a GPU; driver_rules.py has the reasons.
OTHERWISE = {
    "calls_that_return_during_work": {"copy to pageable memory": True},
    "calls_without_a_descriptor": {"cuIpcOpenMemHandle": 1, "cuIpcGetEventHandle": 2},
    "export_imported_memory": {"close-on-exec": False, "descriptor": ANY},
    "open_destroyed_event": 205,
    "open_handle_across_namespaces": {"own /dev/shm": {"memory": 0, "event": 0}},
}
NOT_COMPARED = {
    "calls_during_a_capture",  # test_assumed_rules.py
    "device_work_after_process_exit",
    "export_torch_expandable_segments",
    "stream_memory_operations_on_import",
    "time_import_and_mapping",
    *(each.__name__ for each in EXPERIMENTS if each.__module__ == "probes.pin_experiments"),
}


def compare_with_a_gpu(answers: dict[str, Any], card: str) -> None:
    """Compare all answers with those of a GPU, which has none of a new experiment, or of its new part."""
    recorded = json.loads((ROOT / f"bench/results/{card}.json").read_text())["facts"]
    for name, expected in recorded.items():
        answer = answers[name]
        if name in NOT_COMPARED or name.endswith("_on_virtual_memory") or "cannot make" in str(answer):
            continue
        other = OTHERWISE.get(name, expected)
        expected = expected | other if isinstance(other, dict) else other
        if isinstance(expected, dict):
            answer = {each: answer.get(each) for each in expected}
        assert answer == expected, (card, name)


def test_failed_experiment_does_not_stop_the_others(simulator, tmp_path) -> None:
    """Regression: after one refused chunk, a TimeoutError lost all answers."""
    file = tmp_path / "facts.json"
    names = ("import_descriptor_left_in_socket", "virtual_memory_granularity")
    run("facts", simulator, *names, "--json", str(file), SHMTENSOR_SIM_FAULTS="cuMemCreate:0:801")
    answers = answers_in(file)
    assert answers["import_descriptor_left_in_socket"] == {
        "error": "RuntimeError: cuMemCreate: the driver answered 801, CUDA_ERROR_NOT_SUPPORTED"
    }
    assert answers["virtual_memory_granularity"]["minimum"] == 2 << 20


def test_answers_survive_a_killed_program(simulator, tmp_path) -> None:
    code = """
        import os, signal
        from probes import facts

        def last_experiment():
            "Kills the parent."
            os.kill(os.getppid(), signal.SIGKILL)

        facts.EXPERIMENTS = [*facts.EXPERIMENTS[-1:], last_experiment]
        facts.main()
    """
    file = tmp_path / "facts.json"
    done = run_python(code, env=simulator.env, arguments=("--json", str(file)))
    assert done.returncode == -signal.SIGKILL, done
    assert answers_in(file)["virtual_memory_granularity"]["minimum"] == 2 << 20


@pytest.mark.thorough
def test_hanging_experiment_process_is_named_and_killed(simulator) -> None:
    """Regression: a grandchild had its parent's time limit; the parent exited first, without its report."""
    code = """
        import os, signal, time
        from probes.children import MARGIN, Child, ask

        def forever(end):
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            end.send(str(os.getpid()).encode())
            time.sleep(100)

        def hang():
            time.sleep(100)

        def experiment():
            hanging = Child(forever)
            return {"pid": int(hanging.receive()), "child": ask(hang)}

        print(ask(experiment, 2 * MARGIN))
    """
    done = run_python(code, env=simulator.env)
    assert done.returncode == 0, done
    answer = ast.literal_eval(done.stdout)
    assert "no answer within 3 s" in answer["child"]["error"]
    assert "in hang" in done.stderr, "the stack of the hanging function"
    wait_until(lambda: not is_running(answer["pid"]), what="the process left running to end")


@pytest.mark.thorough
def test_killed_consumer_leaves_no_memory(simulator, tmp_path) -> None:
    run("deaths", simulator, "--rounds", "2", "--json", str(tmp_path / "deaths.json"))
    found = json.loads((tmp_path / "deaths.json").read_text())
    assert found["simulated"]
    assert found["own"] == found["users"] == {"bytes left": 0}


@pytest.mark.thorough
def test_failed_consumer_is_reported_and_others_are_measured(simulator, tmp_path) -> None:
    """Regression: the program waited indefinitely for its answer."""
    options = ("--rounds", "1", "--json", str(tmp_path / "deaths.json"))
    run("deaths", simulator, *options, status=1, SHMTENSOR_SIM_FAULTS="cuMemImportFromShareableHandle:0:1")
    found = json.loads((tmp_path / "deaths.json").read_text())
    assert found["own"]["error"] == "RuntimeError: the consumer ended without an answer, exit code 1"
    assert found["users"] == {"bytes left": 0}


@pytest.mark.thorough
def test_storm_of_kills_has_no_faults(simulator, tmp_path) -> None:
    options = ("--seconds", "10", "--seed", "1", "--json", str(tmp_path / "storm.json"))
    run("storm", simulator, *options)
    found = json.loads((tmp_path / "storm.json").read_text())
    assert found["simulated"]
    assert found["faults"] == []
    assert found["kills"] > 0
    assert found["starts"] >= found["kills"] + 6
    assert found["checks"] >= found["messages"] > 0
    assert found["bytes"] > 0
    assert found["messages left"] == found["blocks left"] == found["bytes left"] == 0


@pytest.mark.thorough
def test_storm_reports_faults(simulator, tmp_path) -> None:
    """Errors that no kill explains, and wrong data. A kill would explain an error at the same time."""
    options = ("--seconds", "12", "--processes", "2", "--no-kills", "--json", str(tmp_path / "storm.json"))
    run("storm", simulator, *options, status=1, SHMTENSOR_SIM_FAULTS="cuIpcOpenMemHandle_v2:0:2")
    faults = json.loads((tmp_path / "storm.json").read_text())["faults"]
    assert any("cuIpcOpenMemHandle returned CUDA_ERROR_OUT_OF_MEMORY" in fault for fault in faults)
    code = """
        import shmtensor as st
        from probes.storm_letters import Letter, mismatch

        contents = ((256, True), (1, True), (0, False))
        letter = Letter(1, False, False, contents, [st.zeros(16, "u1", device="cuda")] * 3)
        texts = [mismatch(letter, which).split(";")[0] for which in range(3)]
        assert texts[0] == "", texts
        assert texts[1] == "wrong data: 16 of 16 bytes, from 0: " + "00" * 16, texts
        assert texts[2].startswith("wrong data: 8 of 16 bytes, from 8"), texts
    """
    output(run_python(code, env=simulator.env))


@pytest.mark.thorough
def test_round_trips_are_stored_as_they_complete(simulator) -> None:
    """Consumers that answer, that have failed, and that stop answering."""
    code = """
        from probes import deaths, round_trip
        from probes.keep import limited

        round_trip.WARM = round_trip.ROUNDS = 2
        found, written = {}, []
        round_trip.measure(round_trip._shmtensor, found, lambda: written.append(list(found)))
        assert written[0] == ["same"]
        assert written[-1] == ["same", "fresh", "100 in one message"]
        for consumer, what in ((limited, "exit code 1"), (deaths.hold, "longer than 5 s")):
            round_trip.consume = consumer
            try:
                with limited(5):
                    round_trip.measure(round_trip._shmtensor, {}, print)
            except (RuntimeError, TimeoutError) as error:
                assert what in str(error), error
            else:
                raise AssertionError(what)
    """
    output(run_python(code, env=simulator.env))


@pytest.mark.thorough
def test_bounded_command_ends_in_time_with_its_children(simulator, tmp_path) -> None:
    """Also a command that ignores an interrupt and whose children have their own process sessions."""
    stubborn = write_program(
        tmp_path,
        """
        import os, signal, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for _ in range(2):
            if os.fork() == 0:
                os.setsid()
        print("begun", flush=True)
        time.sleep(100)
        """,
    )
    code = """
        import os, sys
        from probes import bounded

        bounded.GRACE = 1
        bounded.adopt_orphans()
        with open(sys.argv[2], "w+") as log:
            status = bounded.run([sys.executable, sys.argv[1]], 3, log)
            killed = bounded.end_children(None, 1)
            assert status == -9, status
            assert len(killed) == 3, killed
            assert all(sys.argv[1] in words for words in killed)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                pass
            else:
                raise AssertionError
    """
    arguments = (str(stubborn), str(tmp_path / "log"))
    output(run_python(code, env=simulator.env, arguments=arguments))
    assert (tmp_path / "log").read_text().count("begun") == 4
