"""The coordinator pattern: workers wait for the coordinator's name, the coordinator for all workers' names.

Both then work for a while. Usage: pattern.py SECONDS
"""

import os
import socket
import sys
import time

LIMIT = 60.0


def wait_for(hosts: list[str]) -> None:
    deadline = time.monotonic() + LIMIT
    missing = list(hosts)
    while missing:
        for host in list(missing):
            try:
                socket.getaddrinfo(host, None)
                missing.remove(host)
            except socket.gaierror:
                pass
        if missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not found: {', '.join(missing)}")
            time.sleep(0.1)


def main() -> None:
    peers = os.environ["MUSTER_PEERS"].split(",")
    coordinator = os.environ["MUSTER_COORDINATOR"]
    if os.environ["REPLICATED_JOB_NAME"] == "coordinator":
        wait_for([peer for peer in peers if peer != coordinator])
        print("all workers are up, begin coordination", flush=True)
    else:
        wait_for([coordinator])
        print("the coordinator is up, at work", flush=True)
    time.sleep(float(sys.argv[1]))
    print("done", flush=True)


if __name__ == "__main__":
    main()
