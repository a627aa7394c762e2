"""`make test-cluster`: says what is missing before it begins, then runs these tests."""

import os
import sys
from pathlib import Path

import pytest

from tests.cluster.control_plane import Missing, built

if __name__ == "__main__":
    if not os.environ.get("KUBECONFIG"):
        try:
            print(f"test cluster: {built()}", flush=True)
        except Missing as missing:
            sys.exit(f"make test-cluster: {missing}")
    sys.exit(pytest.main([str(Path(__file__).parent), "-q", "-p", "no:randomly", *sys.argv[1:]]))
