"""`make test-upstream`: builds what is not kept, says what cannot be built and why, then runs these tests.

With `--kept` it builds nothing: tests of what is not kept are skipped.
"""

import sys
from pathlib import Path

import pytest

from tests.cluster.building import Missing
from tests.upstream.modules import ALL, ALLOCATOR, UNBUILT

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--kept" in arguments:
        arguments.remove("--kept")
    else:
        for upstream in (*ALL, ALLOCATOR):
            try:
                print(f"{upstream.name}: {upstream.built()}", flush=True)
            except Missing as missing:
                UNBUILT[upstream.name] = str(missing)
                print(f"{upstream.name} is not built: {missing}", flush=True)
    sys.exit(pytest.main([str(Path(__file__).parent), "-q", "-p", "no:randomly", *arguments]))
