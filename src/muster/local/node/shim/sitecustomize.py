"""A pod's names for a Python program: its host name, and the addresses of the pods around it.

Imported by each interpreter in a pod that has no namespaces. It replaces `gethostname`, `getaddrinfo`,
`gethostbyname`, `gethostbyname_ex`, and `connect` and `bind` of sockets; the hosts file is read at each call,
because pods come and go. An unknown name below a subdomain of this namespace is answered at once with
EAI_NONAME, as the cluster's DNS does, and not asked of the machine's name server. Then the user's own
`sitecustomize`, if there is one further down the path, is run. Nothing here may keep a program from starting.
"""

import _socket
import importlib.machinery
import importlib.util
import os
import socket
import sys

_HOSTS = os.environ.get("MUSTER_HOSTS", "")
_HOSTNAME = os.environ.get("MUSTER_HOSTNAME", "")
_getaddrinfo = socket.getaddrinfo
_gethostbyname = socket.gethostbyname
_gethostbyname_ex = socket.gethostbyname_ex


def _table():
    """name -> address; the names of one record are one pod's."""
    table = {}
    try:
        with open(_HOSTS, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.partition("#")[0].split()
                for name in words[1:]:
                    table.setdefault(name, (words[0], words[1]))
    except OSError:
        pass
    return table


def _find(host):
    """The address and full name of `host`; None if it is none of ours; raises for what would be."""
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("utf-8", "replace")
    if not isinstance(host, str):
        return None
    name = host.rstrip(".").lower()
    table = _table()
    found = table.get(name)
    if found is None and _is_ours(name, table):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return None if found is None or name == "localhost" else found


def _is_ours(name, table):
    """Whether `name` would be a pod: below a subdomain that some pod has, or the cluster's own domain."""
    if name.endswith(".svc.cluster.local"):
        return True
    parent = name.partition(".")[2]
    return bool(parent) and any(full.partition(".")[2] == parent for full in table)


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    found = _find(host)
    if found is None:
        return _getaddrinfo(host, port, family, type, proto, flags)
    if family == socket.AF_INET6:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    answers = _getaddrinfo(found[0], port, family, type, proto, flags & ~socket.AI_CANONNAME)
    if flags & socket.AI_CANONNAME and answers:
        first = answers[0]
        answers[0] = (first[0], first[1], first[2], found[1], first[4])
    return answers


def gethostbyname(host):
    found = _find(host)
    return _gethostbyname(host) if found is None else found[0]


def gethostbyname_ex(host):
    found = _find(host)
    return _gethostbyname_ex(host) if found is None else (found[1], [], [found[0]])


def gethostname():
    return _HOSTNAME


def _resolved(sock, address):
    if sock.family == socket.AF_INET and isinstance(address, tuple) and len(address) == 2:
        found = _find(address[0])
        if found is not None:
            return (found[0], address[1])
    return address


def connect(self, address):
    return _socket.socket.connect(self, _resolved(self, address))


def connect_ex(self, address):
    return _socket.socket.connect_ex(self, _resolved(self, address))


def bind(self, address):
    return _socket.socket.bind(self, _resolved(self, address))


def _install():
    socket.getaddrinfo = getaddrinfo
    socket.gethostbyname = gethostbyname
    socket.gethostbyname_ex = gethostbyname_ex
    socket.gethostname = gethostname
    socket.socket.connect = connect
    socket.socket.connect_ex = connect_ex
    socket.socket.bind = bind


def _chain():
    """Runs the `sitecustomize` that would have been imported without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["sitecustomize"] = module


if _HOSTS and _HOSTNAME:
    _install()
_chain()
