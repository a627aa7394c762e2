"""The resolver shim, as Python programs meet it."""

import os
import subprocess
import sys
from pathlib import Path

from muster.embedded.node.hosts import HostsTable
from muster.embedded.node.shim import variables


def run(tmp_path: Path, program: str, **env: str) -> str:
    table = HostsTable(tmp_path / "hosts", lambda: 0.0)
    table.set("a", "127.1.0.1", ["a.sub.ns.svc.cluster.local", "a.sub.ns.svc", "a.sub.ns", "a.sub", "a"])
    table.close()
    base = {"PATH": os.environ["PATH"], **env}
    done = subprocess.run(
        [sys.executable, "-c", f"import socket\n{program}"],
        env=base | variables(base, tmp_path / "hosts", "me"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_names_of_pods(tmp_path: Path) -> None:
    assert run(tmp_path, "print(socket.gethostname())") == "me"
    assert run(tmp_path, "print(socket.gethostbyname('a.sub'))") == "127.1.0.1"
    assert run(tmp_path, "print(socket.gethostbyname(b'A.sub.'))") == "127.1.0.1"
    full = "('a.sub.ns.svc.cluster.local', [], ['127.1.0.1'])"
    assert run(tmp_path, "print(socket.gethostbyname_ex('a'))") == full
    assert run(tmp_path, "print(socket.getaddrinfo('a.sub', 80)[0][4])") == "('127.1.0.1', 80)"


def test_an_unknown_name_of_ours_is_answered_at_once(tmp_path: Path) -> None:
    program = """
import _socket
def never(*a, **k): raise AssertionError("asked the machine's name server")
import sitecustomize
for name in ('b.sub', 'b.sub.ns', 'b.sub.ns.svc.cluster.local', 'x.other.svc.cluster.local'):
    try: socket.getaddrinfo(name, None)
    except socket.gaierror as error: print(error.errno == socket.EAI_NONAME, end=' ')
"""
    assert run(tmp_path, program) == "True True True True"


def test_other_names_are_the_machines(tmp_path: Path) -> None:
    assert run(tmp_path, "print(socket.gethostbyname('localhost'), socket.gethostbyname('127.0.0.1'))") == (
        "127.0.0.1 127.0.0.1"
    )


def test_sockets_connect_and_bind_by_name(tmp_path: Path) -> None:
    program = """
server = socket.create_server(('a.sub', 0))
client = socket.create_connection(('a.sub', server.getsockname()[1]))
other = socket.socket()
other.connect(('a', server.getsockname()[1]))
print(client.getpeername()[0], other.getpeername()[0])
"""
    assert run(tmp_path, program) == "127.1.0.1 127.1.0.1"


def test_the_users_own_sitecustomize_is_run(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins; builtins.mine = 'mine'\n")
    program = "import sitecustomize; print(mine, sitecustomize.__file__.startswith(%r), socket.gethostname())"
    assert run(tmp_path, program % str(own), PYTHONPATH=str(own)) == "mine True me"


def test_aliases_of_both_families_and_names_beside_them(tmp_path: Path) -> None:
    table = HostsTable(tmp_path / "hosts", lambda: 0.0)
    table.set("0", "fd00::1", ["six.deep.below.some.example.internal"])
    table.set("1", "10.1.2.3", ["nas.internal"])
    table.close()
    program = """
import sitecustomize
six = 'six.deep.below.some.example.internal'
print(socket.getaddrinfo(six, 80)[0][4][:2], socket.getaddrinfo('nas.internal', 80)[0][4])
for attempt in (
    lambda: socket.getaddrinfo('nas.internal', 80, socket.AF_INET6),
    lambda: socket.gethostbyname(six),
    lambda: socket.socket().connect((six, 80)),
):
    try: attempt()
    except socket.gaierror as error: print(error.errno == socket.EAI_NONAME)
print(sitecustomize._find('other.deep.below.some.example.internal'))
"""
    first = "('fd00::1', 80) ('10.1.2.3', 80)"
    assert run(tmp_path, program).splitlines() == [first, "True", "True", "True", "None"]
