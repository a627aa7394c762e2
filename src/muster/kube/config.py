"""The cluster's address and the user's credentials, from kubeconfig files or an in-cluster service account.

The official client reads everything that a kubeconfig can contain (merged files, contexts, exec plug-ins,
OIDC, client certificates). Only this module imports it, and only when it is needed. Credentials that expire
are read from the files again (`kube/credentials.py`).
"""

import logging
import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
from multidict import CIMultiDict
from yarl import URL

from muster.kube import proxies
from muster.kube.credentials import Credentials, Reading
from muster.kube.http import Connection

log = logging.getLogger(__name__)


class ConfigError(Exception):
    """The configuration cannot be used; the message says why."""


class _Context(msgspec.Struct):
    cluster: str
    user: str = ""
    namespace: str | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str
    proxy_url: str | None = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: dict[str, Any] | None = None  # Any: ways to authenticate are many


class _KubeConfig(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    contexts: list[_NamedContext] | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None


class _Impersonation(msgspec.Struct, rename="kebab"):
    as_: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}


#: Exceptions whose message is for users; any other is a side effect of a bad file.
_MADE_FOR_PEOPLE: Final = ("ConfigException", "UnusableProxy")


#: Ways to authenticate whose tokens change. Tokens in the kubeconfig itself do not.
_CHANGING: Final = ("exec", "auth-provider", "tokenFile")
#: Seconds after which a file is looked at again: the program that writes it replaces it in time.
_FILE_SECONDS: Final = 60.0
_NEVER: Final = float("inf")
#: Most bytes of a kubeconfig.
_MOST: Final = 4 << 20
#: Where a pod finds its service account.
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def load(
    kubeconfig: str | None = None, context: str | None = None, now: Callable[[], float] = time.time
) -> Connection:
    """The connection of a kubeconfig (default: $KUBECONFIG, then ~/.kube/config, then in-cluster).

    Raises ConfigError.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    inside = not kubeconfig and not context and not os.path.exists(path) and "KUBECONFIG" not in os.environ
    try:
        if not inside:
            _check(path, context)
        elif "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise ValueError(f"there is no {path}, and this is not a pod; name a file with --kubeconfig")
        found, namespace, until = _in_cluster(now()) if inside else _of_file(path, context, now())
        if not found.host:
            raise ValueError("the cluster has no server")
        _address(found.host)
        tls = _tls(found)
        proxy = _proxy(found)
    except Exception as error:  # a bad file makes the loaders raise exceptions of any type
        where = "" if inside else f"{path}: "
        raise ConfigError(f"no usable cluster configuration: {where}{_words(error)}") from error

    def read() -> Reading:
        again, _, expiry = _in_cluster(now()) if inside else _of_file(path, context, now())
        if tls is not None and again.cert_file:
            tls.load_cert_chain(again.cert_file, again.key_file)  # for later connections
        return Reading(_headers(again), _NEVER if expiry is None else expiry)

    first = Reading(_headers(found), _NEVER if until is None else until)
    credentials = Credentials(first, read if until is not None else None, now)
    files = _Files(tls, found, now)

    def headers() -> Mapping[str, str]:
        files.renew()
        return credentials.headers()

    return Connection(
        found.host,
        tls,
        headers,
        lambda: credentials.expired,
        namespace,
        credentials.refused,
        proxy,
        found.tls_server_name or "",
        bool(found.cert_file),
    )


class _Files:
    """The certificates that were read from files, which other programs replace before they expire."""

    def __init__(self, tls: ssl.SSLContext | None, found: Any, now: Callable[[], float]) -> None:
        self._tls, self._now = tls, now
        self._authority, self._certificate, self._key = found.ssl_ca_cert, found.cert_file, found.key_file
        self._seen, self._next = self._state(), now() + _FILE_SECONDS

    def renew(self) -> None:
        """Reads the files again if they have changed; once a minute at most. Later connections use them."""
        if self._tls is None or self._now() < self._next:
            return
        self._next, state = self._now() + _FILE_SECONDS, self._state()
        if state == self._seen:
            return
        try:
            if self._authority:
                self._tls.load_verify_locations(self._authority)  # earlier authorities stay, too
            if self._certificate:
                self._tls.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as error:  # half replaced, perhaps
            log.error("certificates cannot be renewed: %s", _words(error))
        else:
            self._seen = state

    def _state(self) -> object:
        found: list[tuple[int, int, int] | None] = []
        for name in (self._authority, self._certificate, self._key):
            try:
                stat = os.stat(name) if name else None
            except OSError:
                stat = None
            found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size) if stat is not None else None)
        return found


def _headers(found: Any) -> Mapping[str, str]:
    """Returns the headers that authenticate the user, and those of impersonation (some of them repeated)."""
    token = found.api_key.get("authorization") or found.api_key.get("BearerToken")
    headers = CIMultiDict({"Authorization": token} if token else {})
    headers.extend(found.acts_as)
    return headers


def _acts_as(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The headers of the user's impersonation. Raises ValueError."""
    acts = sorted(key for key in user if key == "as" or key.startswith("as-"))
    if not acts:
        return []
    try:
        entry = msgspec.convert({key: user[key] for key in acts}, _Impersonation)
    except msgspec.ValidationError as error:
        raise ValueError(f"impersonation: {error}") from None
    if not entry.as_:
        raise ValueError(f"impersonation: {acts[0]!r} is given without 'as'; name a user, or remove it")
    headers = [("Impersonate-User", entry.as_), *(("Impersonate-Group", group) for group in entry.as_groups)]
    if entry.as_uid:
        headers.append(("Impersonate-Uid", entry.as_uid))
    for key, values in sorted(entry.as_user_extra.items()):
        headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    return headers


def _address(server: str) -> URL:
    """The URL of a server. Raises ValueError."""
    with suppress(ValueError):
        address = URL(server)
        if address.scheme in ("http", "https") and address.host:
            return address
    raise ValueError(f"server {server!r} is not a URL; write https://HOST:PORT")


def _proxy(found: Any) -> str:
    """The URL of the proxy: proxy-url, or what the environment says of this host."""
    if found.proxy_said:
        return str(proxies.usable(found.proxy_said, "proxy-url"))
    return str(proxies.find(_address(found.host), proxies.of_environment()) or "")


def _of_file(path: str, context: str | None, now: float) -> tuple[Any, str, float | None]:
    """The official client's Configuration, the context's namespace, and the time at which credentials expire.

    The time is in seconds since the epoch; None means that they do not expire while the process runs.
    """
    import kubernetes  # here: the import takes half a second, and the embedded cluster never needs it

    config: Any = kubernetes.config  # Any: its loaders carry no types
    found: Any = kubernetes.client.Configuration()
    merged = config.kube_config.KubeConfigMerger(path)
    loader = config.kube_config.KubeConfigLoader(
        merged.config, context, config_base_path=None, config_persister=merged.save_changes
    )
    loader.load_and_set(found)
    contexts, active = config.list_kube_config_contexts(path)
    if context:
        active = next(entry for entry in contexts if entry["name"] == context)
    user = _user(config, path, active["context"])
    found.acts_as, found.proxy_said = _acts_as(user), getattr(loader, "proxy", None) or ""
    if not found.api_key and not found.cert_file and "exec" in user:  # the loader only logs this
        raise ValueError(f"the plug-in {user['exec']['command']} gives no credentials")
    return found, active["context"].get("namespace") or "default", _until(loader, user, now)


def _until(loader: Any, user: Mapping[str, Any], now: float) -> float | None:
    """When to read these credentials again; without an expiry they are used until the server refuses them."""
    if not any(key in user for key in _CHANGING):
        return None
    expiry = getattr(loader, "expiry", None)
    if isinstance(expiry, datetime):
        return expiry.timestamp()
    return now + _FILE_SECONDS if "tokenFile" in user else _NEVER


def _user(config: Any, path: str, context: Mapping[str, Any]) -> Mapping[str, Any]:
    """The kubeconfig's entry for the context's user."""
    users = config.kube_config.KubeConfigMerger(path).config.safe_get("users") or ()
    return next((e.value.get("user") or {} for e in users if e["name"] == context.get("user")), {})


def _in_cluster(now: float) -> tuple[Any, str, float]:
    import kubernetes  # as above

    config: Any = kubernetes.config  # Any: as above
    found: Any = kubernetes.client.Configuration()
    config.load_incluster_config(client_configuration=found)
    found.acts_as, found.proxy_said = [], ""
    try:
        namespace = Path(_ACCOUNT, "namespace").read_text().strip()
    except OSError:
        namespace = ""
    return found, namespace or "default", now + _FILE_SECONDS


def _check(path: str, context: str | None) -> None:
    """Checks the form of the files, and that they have the context. Raises ValueError.

    The official client says less of what is missing, and fails on a bad file.
    """
    import yaml  # here: the embedded cluster does not need it

    names = [*filter(None, path.split(os.pathsep))]
    if not any(map(os.path.exists, names)):
        raise ValueError("no such file")
    contexts = list[str]()
    for name in names:
        if not os.path.exists(name):
            continue  # some files of several may be missing
        where = "" if name == path else f"{name}: "
        try:
            with open(name, "rb") as file:
                text = file.read(_MOST + 1)
            if len(text) > _MOST:
                raise ValueError(f"{where}is larger than {_MOST >> 20} MiB; is this a kubeconfig?")
            content = yaml.safe_load(text)
            found = msgspec.convert({} if content is None else content, _KubeConfig)
        except yaml.YAMLError as error:
            raise ValueError(f"{where}not YAML: {_line(error)}") from None
        except msgspec.ValidationError as error:
            raise ValueError(f"{where}not a kubeconfig: {error}") from None
        contexts += [each.name for each in found.contexts or ()]
    if context and context not in contexts:
        raise ValueError(f"no context {context}; contexts: {', '.join(contexts) or 'none'}")


def _line(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f"line {mark.line + 1}: {problem}" if mark is not None and problem else "it is not text"


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if isinstance(error, ssl.SSLError) or type(error).__module__ == "binascii":
        return "a certificate or key in it cannot be read"
    if type(error) is ValueError or type(error).__name__ in _MADE_FOR_PEOPLE:
        return " ".join(str(error).split())
    return "it cannot be understood; `kubectl config view` may say why"


def _tls(found: Any) -> ssl.SSLContext | None:
    """The TLS context that the official client's Configuration describes."""
    if urlsplit(found.host).scheme != "https":
        return None
    context = ssl.create_default_context(cafile=found.ssl_ca_cert)
    if found.cert_file:
        context.load_cert_chain(found.cert_file, found.key_file)
    if not found.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
