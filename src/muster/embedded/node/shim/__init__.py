"""Names for Python programs where a pod cannot have a hosts file of its own.

`sitecustomize.py` in this directory comes first on PYTHONPATH, so that each Python interpreter started in
the pod imports it; it stands alone and knows only the variables below.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HOSTS: Final = "MUSTER_HOSTS"
HOSTNAME: Final = "MUSTER_HOSTNAME"
_DIRECTORY: Final = str(Path(__file__).parent)


def variables(env: Mapping[str, str], hosts: Path, hostname: str) -> dict[str, str]:
    """The variables to add to a container's environment."""
    path = env.get("PYTHONPATH")
    return {
        "PYTHONPATH": os.pathsep.join([_DIRECTORY, path] if path else [_DIRECTORY]),
        HOSTS: str(hosts),
        HOSTNAME: hostname,
    }
