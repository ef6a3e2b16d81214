"""The programs in `examples` that need NumPy only."""

from __future__ import annotations

import re

import pytest

from tests.helpers.children import run_example


def missed_by_the_slow_consumer() -> int:
    done = run_example("video_frames.py")
    assert done.returncode == 0, done
    assert not done.stderr
    frames, places = map(int, re.search(r"(\d+) frames in .* memory of (\d+)", done.stdout).groups())
    # A few live at any time; before the memory of earlier ones is used again, an extent may become full.
    assert places < 100, "frames that all consumers have released are used again"
    for name in ("brightness", "edges"):
        received, missed = map(int, re.search(rf"{name}: (\d+) frames, missed (\d+)", done.stdout).groups())
        assert received + missed == frames == 200, "all are accounted for"
        assert name == "edges" or missed == 0
    return missed


def test_frames_are_decoded_once_for_all_consumers() -> None:
    missed_by_the_slow_consumer()


@pytest.mark.thorough  # a slow machine draws fewer frames in a second than the slow consumer receives
def test_slow_consumer_delays_no_other_process() -> None:
    assert missed_by_the_slow_consumer() > 0


def test_actors_have_the_newest_weights() -> None:
    done = run_example("actor_learner.py", "3")
    assert re.fullmatch(r"\d+ updates of 15 MiB a second; actors were \d+\.\d behind\n", done.stdout), done
    assert not done.stderr


def test_environments_play_the_same_with_shared_arrays_and_pickles() -> None:
    done = run_example("vector_environments.py", "100")
    assert re.fullmatch(r"steps a second: shared \d+, pickled \d+; rewards [1-9]\d*\n", done.stdout), done
    assert not done.stderr
