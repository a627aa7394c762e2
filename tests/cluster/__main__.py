"""`make test-cluster`: says what is missing before it begins, then runs these tests."""

import os
import sys
from pathlib import Path

import pytest

from tests.cluster.building import Missing
from tests.cluster.control_plane import PROGRAMS, built

if __name__ == "__main__":
    if not os.environ.get("KUBECONFIG"):
        try:
            for program in PROGRAMS:
                print(f"test cluster: {built(program)}", flush=True)
        except Missing as missing:
            sys.exit(f"make test-cluster: {missing}")
    # Each of two processes has a control plane of its own; a given cluster is one.
    two = [] if os.environ.get("KUBECONFIG") else ["-n", "2", "--dist", "loadfile"]
    sys.exit(pytest.main([str(Path(__file__).parent), "-q", "-p", "no:randomly", *two, *sys.argv[1:]]))
