"""Messages of all kinds for a queue; each contains its number throughout."""

from __future__ import annotations

import numpy as np

import shmtensor as st


def message(number: int) -> object:
    """Return an int, a tensor, a list of tensors, or an array that a queue copies into shared memory."""
    kind = number % 4
    if kind == 0:
        return number
    if kind == 1:
        return st.full(100, number, np.int64)
    if kind == 2:
        return [st.full(10, number, np.int64), st.full(3000, number, np.int64)]
    return np.full(10_000, number)


def number_in(received: object) -> int:
    """Return the number of a message; raise AssertionError if its parts have different ones."""
    if isinstance(received, int):
        return received
    parts = received if isinstance(received, list) else [received]
    arrays = [part.numpy() if isinstance(part, st.Tensor) else part for part in parts]
    number = int(arrays[0][0])
    assert all((array == number).all() for array in arrays), f"message {number} is damaged"
    assert message_kind_fits(number, received), f"message {number} is of another kind"
    return number


def message_kind_fits(number: int, received: object) -> bool:
    """Return True if a message of this number is of the kind that was received."""
    return type(received) is (int, st.Tensor, list, np.ndarray)[number % 4]
