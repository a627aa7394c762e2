"""Who may see the pages: the first browser that opens the address which the terminal prints.

The address has a token that is valid once. Its first reader gets a cookie, so a copy of the address is of no
use to another user of the machine, and neither the history of the browser nor the title of its process has
what opens the pages. Requests must name this server as their host: a page of another origin whose name is
changed to this address (DNS rebinding) reads nothing.

A request that changes something is a form of these pages: it has a token which only they know, so that no
page of another origin can send one (cross-site request forgery).
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from hmac import compare_digest, digest
from http.cookies import CookieError, SimpleCookie
from typing import Final

#: Cookies of all ports of a host are sent to each of them, so the name has the port.
_COOKIE: Final = "muster-dashboard-{port}"
#: The field of a form with the viewer's token.
FORM: Final = "form"
#: Headers of each answer. No page may frame these, run a script of another origin, or be kept in a cache.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # with no-referrer, browsers would send forms with "Origin: null"
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache, private",
}


class Answer(Enum):
    """What a request gets."""

    PAGE = "page"
    #: a cookie, and then the page, without the token in its address
    COOKIE = "cookie"
    WRONG_HOST = "wrong host"
    NO_ACCESS = "no access"


@dataclass(frozen=True, slots=True)
class Viewer:
    """A browser that has access."""

    #: the token of its forms
    form: str

    @classmethod
    def of(cls, session: str) -> "Viewer":
        """The viewer with this secret. Its forms have a token from which the secret cannot be told."""
        return cls(digest(session.encode(), b"forms of muster's pages", sha256).hex())

    def sent(self, headers: Mapping[str, str], form: Mapping[str, str]) -> bool:
        """Whether a form is of a page that this viewer was shown. Its origin must be the request's host."""
        origin = headers.get("origin", "").removeprefix("https://").removeprefix("http://")
        same = bool(origin) and origin == headers.get("host")
        return compare_digest(form.get(FORM, "").encode(), self.form.encode()) and same


class Access:
    """Decides about requests. `token` is the one of the address; it is valid once."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._name = _COOKIE.format(port=port)
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._used = False
        self.viewer = Viewer.of(self._session)

    def judge(self, headers: Mapping[str, str], token: str | None) -> Answer:
        """`headers`: of the request, with names in lower case. `token`: the one in its address."""
        if headers.get("host", "") not in self._hosts:
            return Answer.WRONG_HOST
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return Answer.WRONG_HOST
        if compare_digest(self._cookie(headers.get("cookie", "")).encode(), self._session.encode()):
            return Answer.COOKIE if token is not None else Answer.PAGE
        if token is None or self._used or not compare_digest(token.encode(), self.token.encode()):
            return Answer.NO_ACCESS
        self._used = True
        return Answer.COOKIE

    @property
    def cookie(self) -> str:
        """The value of a `Set-Cookie` header."""
        return f"{self._name}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def _cookie(self, header: str) -> str:
        try:
            found = SimpleCookie(header).get(self._name)
        except CookieError:
            return ""
        return found.value if found is not None else ""
