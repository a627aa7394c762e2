"""A pod's names for a Python program: its host name, and the addresses of the pods around it.

Imported by each interpreter in a pod that has no namespaces. It replaces `gethostname`, `getaddrinfo`,
`gethostbyname`, `gethostbyname_ex`, and `connect` and `bind` of sockets; the hosts file is read at each
call, because pods come and go. An unknown name below a subdomain of this namespace is answered at once
with EAI_NONAME, as the cluster's DNS does, and not asked of the machine's name server. Then the user's own
`sitecustomize`, if there is one further down the path, is run.

It stands alone: the interpreter may be any Python 3, in any virtual environment.
"""

from __future__ import annotations

import _socket
import importlib.machinery
import importlib.util
import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # Any: these functions pass on whatever a program gives to the ones they replace

_HOSTS = os.environ.get("MUSTER_HOSTS", "")
_HOSTNAME = os.environ.get("MUSTER_HOSTNAME", "")
_DOMAIN = ".svc.cluster.local"
_getaddrinfo = socket.getaddrinfo
_gethostbyname = socket.gethostbyname
_gethostbyname_ex = socket.gethostbyname_ex


def _find(host: Any) -> tuple[list[str], str] | None:
    """The addresses and full name of `host`; None if it is none of ours; raises for what would be."""
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("utf-8", "replace")
    if not isinstance(host, str):
        return None
    name = host.rstrip(".").lower()
    table = _table()
    found = table.get(name)
    if found is None and _would_be_ours(name, table):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return None if name == "localhost" else found


def _table() -> dict[str, tuple[list[str], str]]:
    """name -> (addresses, first name of its records); a Service has several addresses, in as many records."""
    table: dict[str, tuple[list[str], str]] = {}
    try:
        with open(_HOSTS, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.partition("#")[0].split()
                for name in words[1:]:
                    table.setdefault(name, ([], words[1]))[0].append(words[0])
    except OSError:
        pass
    return table


def _would_be_ours(name: str, table: dict[str, tuple[list[str], str]]) -> bool:
    """Whether `name` is below a subdomain that some pod has, or below the cluster's own domain."""
    if name.endswith(_DOMAIN):
        return True
    parent = name.partition(".")[2]
    return bool(parent) and any(
        known.partition(".")[2] == parent
        for known, (_, full) in table.items()
        if full.endswith(_DOMAIN)
        and full.count(".") > 4  # HOST.SUBDOMAIN.NAMESPACE.svc.cluster.local; below a namespace is the world
    )


def _getaddrinfo_of_pods(
    host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
) -> list[Any]:
    found = _find(host)
    if found is None:
        return list(_getaddrinfo(host, port, family, type, proto, flags))
    answers: list[Any] = []
    for address in found[0]:
        if family in (socket.AF_UNSPEC, _family(address)):
            answers += _getaddrinfo(address, port, family, type, proto, flags)
    if not answers:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if flags & socket.AI_CANONNAME and answers:
        answers[0] = (*answers[0][:3], found[1], answers[0][4])
    return answers


def _gethostbyname_of_pods(host: Any) -> str:
    found = _find(host)
    return _gethostbyname(host) if found is None else _v4(found[0])[0]


def _gethostbyname_ex_of_pods(host: Any) -> tuple[str, list[str], list[str]]:
    found = _find(host)
    return _gethostbyname_ex(host) if found is None else (found[1], [], _v4(found[0]))


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _v4(addresses: list[str]) -> list[str]:
    """The addresses of the family that old functions know."""
    found = [address for address in addresses if _family(address) == socket.AF_INET]
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return found


def _gethostname_of_pod() -> str:
    return _HOSTNAME


def _connect(sock: socket.socket, address: Any) -> None:
    _socket.socket.connect(sock, _resolved(sock, address))


def _connect_ex(sock: socket.socket, address: Any) -> int:
    return _socket.socket.connect_ex(sock, _resolved(sock, address))


def _bind(sock: socket.socket, address: Any) -> None:
    _socket.socket.bind(sock, _resolved(sock, address))


def _resolved(sock: socket.socket, address: Any) -> Any:
    if sock.family == socket.AF_INET and isinstance(address, tuple) and len(address) == 2:
        found = _find(address[0])
        if found is not None:
            return (_v4(found[0])[0], address[1])
    return address


def _install() -> None:
    replaced = {
        "getaddrinfo": _getaddrinfo_of_pods,
        "gethostbyname": _gethostbyname_of_pods,
        "gethostbyname_ex": _gethostbyname_ex_of_pods,
        "gethostname": _gethostname_of_pod,
    }
    for name, function in replaced.items():
        function.__name__ = name
        setattr(socket, name, function)
    for name, method in {"connect": _connect, "connect_ex": _connect_ex, "bind": _bind}.items():
        setattr(socket.socket, name, method)


def _chain() -> None:
    """Runs the `sitecustomize` that would have been imported without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if _HOSTS and _HOSTNAME:
    _install()
_chain()
