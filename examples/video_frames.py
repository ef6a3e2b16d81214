"""Frames of a video for several consumers, in shared memory: python examples/video_frames.py [FILE].

One process decodes; each frame is stored once, for all consumers. The slow consumer takes the newest frame,
and delays neither the producer nor the fast one, which gets all. A file needs PyAV (`pip install av`);
without a file, NumPy draws the frames.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import shmtensor as st
import shmtensor.multiprocessing as mp

if TYPE_CHECKING:
    from collections.abc import Iterator

HEIGHT, WIDTH, FRAMES, RATE = 720, 1280, 200, 100  # RATE is in frames a second


def drawn_frames() -> Iterator[Any]:
    """Yield frames in which a white square moves to the right."""
    for number in range(FRAMES):
        frame = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        frame[300:400, 5 * number : 5 * number + 100] = 255
        yield frame


def frames_of_file(path: str) -> Iterator[Any]:
    """Yield the frames of a video file."""
    import av

    with av.open(path) as file:
        for frame in file.decode(video=0):
            yield frame.to_ndarray(format="rgb24")


def produce(video: st.Broadcast[Any], path: str | None) -> None:
    """Decode frames at their rate, and give each to all consumers."""
    video.wait_for_readers(2, timeout=60)
    places = set()
    start = time.perf_counter()
    number = 0
    for number, frame in enumerate(frames_of_file(path) if path else drawn_frames(), start=1):
        time.sleep(max(0, start + number / RATE - time.perf_counter()))
        shared = st.asarray(frame)  # in memory of an earlier frame that all consumers have released
        places.add(shared.data_ptr())
        video.put((number, shared.as_readonly()))
    video.shutdown()
    print(f"{number} frames in {time.perf_counter() - start:.1f} s, in the memory of {len(places)}")


def brightness(frame: Any) -> float:
    """Return a number that is computed quickly."""
    return float(frame[::8, ::8].mean())


def edges(frame: Any) -> float:
    """Return a number that takes longer than the time between two frames."""
    time.sleep(5 / RATE)  # a detector
    return float(np.abs(np.diff(frame[::8, ::8].astype(np.int16), axis=1)).mean())


def consume(video: st.Broadcast[Any], measure: Any, *, newest: bool) -> None:
    """Measure every frame, or the newest at each time."""
    with video.reader(newest=newest) as frames:
        received, last = 0, 0
        for number, frame in frames:  # until the producer shuts down
            assert number > last
            last = number
            measure(frame.numpy())
            received += 1
            del frame  # releases the memory before this process waits for the next frame
        print(f"{measure.__name__}: {received} frames, missed {frames.missed}")


if __name__ == "__main__":
    broadcast: st.Broadcast[Any] = st.Broadcast(maxsize=4)
    file = sys.argv[1] if len(sys.argv) > 1 else None
    processes = [
        mp.Process(target=produce, args=(broadcast, file)),
        mp.Process(target=consume, args=(broadcast, brightness), kwargs={"newest": False}),
        mp.Process(target=consume, args=(broadcast, edges), kwargs={"newest": True}),
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
