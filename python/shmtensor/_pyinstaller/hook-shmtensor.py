"""What the imports of a program do not show: the manager, and modules that are imported by their names."""

from importlib.util import find_spec
from pathlib import Path

from PyInstaller.utils.hooks import collect_submodules

import shmtensor._core as _core
from shmtensor.integrations._registry import KNOWN
from shmtensor.multiprocessing._worker_server.server import ALWAYS

binaries = [(str(Path(_core.__file__).with_name("shmtensor-manager")), "shmtensor")]
hiddenimports = collect_submodules("shmtensor", lambda name: not name.startswith("shmtensor._pyinstaller"))
hiddenimports += [name for name in ALWAYS if find_spec(name)]
# A library of an integration, or of the command, is part of a program only if the program imports it itself.
excludedimports = [*KNOWN, "IPython", "distributed", "matplotlib", "mpi4py", "psutil", "rich"]
