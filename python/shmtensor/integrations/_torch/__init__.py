"""The parts of the integration of torch.

Importing them imports torch first: where the integration waits for that, it imports these modules, too.
"""

import torch  # noqa: F401
