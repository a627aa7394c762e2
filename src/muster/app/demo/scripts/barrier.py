"""One worker of a job in which no worker can work before all are present.

Rank 0 listens under its own DNS name, and the other ranks connect to that name. When all have connected,
rank 0 sends "go". Usage: barrier.py RANK SIZE RANK0 LIMIT WORK
"""

import socket
import sys
import time

PORT = 29500


def lead(size: int, deadline: float) -> None:
    listener = socket.create_server((socket.gethostbyname(socket.gethostname()), PORT), backlog=size)
    callers: list[socket.socket] = []
    while len(callers) < size - 1:
        listener.settimeout(max(0.01, deadline - time.monotonic()))
        callers.append(listener.accept()[0])
    for caller in callers:
        caller.sendall(b"go")


def call(leader: str, deadline: float) -> None:
    while True:
        try:
            connection = socket.create_connection((leader, PORT), timeout=1)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    connection.settimeout(max(0.01, deadline - time.monotonic()))
    if connection.recv(2) != b"go":
        raise ConnectionError("the leader gave up")


def main() -> int:
    rank, size, leader, limit, work = sys.argv[1:]
    begin = time.monotonic()
    try:
        if rank == "0":
            lead(int(size), begin + float(limit))
        else:
            call(leader, begin + float(limit))
    except OSError as error:
        print(f"gave up after {time.monotonic() - begin:.1f} s: {error}", flush=True)
        return 1
    print(f"barrier {time.time():.3f}", flush=True)
    time.sleep(float(work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
