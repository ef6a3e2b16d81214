"""What a child takes over from its parent, whatever started it."""

from __future__ import annotations

from dataclasses import dataclass

import shmtensor._core as _core
from shmtensor import reducers

__all__ = ["Inheritance"]


@dataclass(frozen=True)
class Inheritance:
    """The parent's session and settings, carried by the Process object."""

    session: str
    strategy: str
    arrays: int | None

    @classmethod
    def of_this_process(cls) -> Inheritance:
        """Collect them; the session's id is chosen here if there is none, without starting it."""
        return cls(_core.home_id(), _core.default_strategy(), reducers.shared_arrays())

    def apply(self) -> None:
        """Take them over, in the child."""
        _core.set_home_id(self.session)
        _core.set_default_strategy(self.strategy)
        reducers.share_arrays(self.arrays)
