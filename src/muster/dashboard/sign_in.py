"""Who may see the pages on a cluster: its users, by their bearer tokens; each sees what it may.

A token comes with a request in the `Authorization` header, which an authenticating proxy sets; or a browser
has it in a cookie, since it was typed in. Replicas share nothing: any of them answers any request. The cookie
is sent over TLS only, to this very host (`__Host-`), is read by no script, and no other site can have it
sent. Cookies of loopback go to each server of the machine, so there (`kubectl port-forward`, to one pod) it
has a random word, for which the pod knows the token.

    GET /healthz, /readyz    for the kubelet, of any host, without a token
    GET /static/…            is part of the package: without a token
    POST /sign-in            takes a token
    POST /sign-out           forgets it
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from muster.dashboard.access import FORM, Viewer, form_of
from muster.dashboard.pages import Page, Pages
from muster.dashboard.reviews import Busy, Reviews
from muster.kube.errors import ApiError, Unanswered, Unreachable

#: Browsers keep cookies of up to 4,096 bytes, with their names and attributes.
LONGEST_COOKIE: Final = 3_900
LONGEST: Final = 16_384
#: Words for tokens that a pod knows at most.
SESSIONS: Final = 1_000
#: A token as a cookie may have it: RFC 6265's cookie-octet.
_TOKEN: Final = re.compile(r"[!#-+\--:<-\[\]-~]+", re.ASCII)
_COOKIE: Final = "muster-dashboard"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class SignIn:
    """Finds the viewer of a request. `hosts`: names by which browsers reach the pages, without ports.

    `missing`: the kinds that have not been read yet.
    """

    def __init__(
        self, reviews: Reviews, pages: Pages, hosts: Collection[str], missing: Callable[[], Sequence[str]]
    ) -> None:
        self._reviews, self._pages, self._missing = reviews, pages, missing
        self._hosts = frozenset(host.lower() for host in hosts) | _LOOPBACK
        self._sessions: OrderedDict[str, str] = OrderedDict()

    async def admit(self, request: Request) -> Viewer | Response | None:
        """The viewer; or what is answered instead; None: no viewer is needed."""
        headers, path = request.headers, request.scope["path"]  # what routes are found by
        if path in ("/healthz", "/readyz"):
            left = self._missing() if path == "/readyz" else ()
            return PlainTextResponse(f"reads {', '.join(left)}\n" if left else "ok\n", 503 if left else 200)
        host = headers.get("host", "").lower()
        if _name(host) not in self._hosts:
            text = f"{host[:253]} is not one of dashboard.hosts in the values of muster's chart."
            return _html(self._pages.problem(421, "Another host", text))
        if headers.get("origin", f"http://{host}").lower() not in (f"https://{host}", f"http://{host}"):
            return _html(self._pages.problem(421, "Another origin", "Another site has sent this request."))
        if path.startswith("/static/"):
            return None
        sent = request.method == "POST"
        if sent and path == "/sign-in":
            return await self._sign_in(request)
        token = self._token(headers)
        found = await self._viewer(token)
        if isinstance(found, Page):
            return _html(found)
        if sent and path == "/sign-out":
            return await self._sign_out(request, found)
        return found

    async def _sign_in(self, request: Request) -> Response:
        """A form without a viewer's token: that of the API server is in it, and the origin is this host."""
        form = await form_of(request)
        if isinstance(form, str) or "origin" not in request.headers:
            return _html(self._pages.problem(400, "This form cannot be read", str(form)))
        token = form.get("token", "").strip()
        if len(token) > LONGEST_COOKIE and not _loopback(request.headers):
            text = "The token is too long for a cookie; a proxy may send it in the Authorization header."
            return _html(self._pages.sign_in(text))
        found = await self._viewer(token)
        if isinstance(found, Page):
            return _html(found)
        value = token
        if _loopback(request.headers):
            value = secrets.token_urlsafe(32)
            self._sessions[value] = token
            if len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)
        return RedirectResponse("/", 303, headers={"Set-Cookie": _set_cookie(request.headers, value)})

    async def _sign_out(self, request: Request, viewer: Viewer) -> Response:
        form = await form_of(request)
        if isinstance(form, str) or not viewer.sent(request.headers, form):
            return _html(
                self._pages.problem(403, "This form is not accepted", f"Its {FORM} is not of a page.")
            )
        self._sessions.pop(_cookie(request.headers), None)
        return RedirectResponse("/", 303, headers={"Set-Cookie": _set_cookie(request.headers, "")})

    async def _viewer(self, token: str) -> Viewer | Page:
        """The viewer with this token, or a page that asks for another."""
        if not token:
            return self._pages.sign_in("")
        refused = self._pages.sign_in("The cluster does not accept this token; it may have expired.")
        if len(token) > LONGEST or not _TOKEN.fullmatch(token):
            return refused
        try:
            user = await self._reviews.user(token)
        except Busy:
            return self._pages.problem(
                429, "Try again in a few seconds", "Too many sign in at the same time."
            )
        except (ApiError, Unanswered, Unreachable) as error:
            return self._pages.problem(503, "The cluster does not say who you are", str(error))
        if user is None:
            return refused

        async def stays() -> bool:
            return await self._reviews.user(token) is not None

        sight = partial(self._reviews.sight, user)
        return Viewer(Viewer.form_of(token), user.username, sight, stays, token)

    def _token(self, headers: Mapping[str, str]) -> str:
        """The token of a request; "" if it has none."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return given.strip()
        value = _cookie(headers)
        return self._sessions.get(value, "") if _loopback(headers) else value


def _html(page: Page) -> Response:
    return Response(page.html, page.status, media_type="text/html")


def _name(host: str) -> str:
    """The name of a host, without its port."""
    return re.sub(r":\d{1,5}$", "", host, flags=re.ASCII)


def _loopback(headers: Mapping[str, str]) -> bool:
    return _name(headers.get("host", "").lower()) in _LOOPBACK


def _cookie_name(headers: Mapping[str, str]) -> str:
    if not _loopback(headers):
        return f"__Host-{_COOKIE}"
    return f"{_COOKIE}-{headers.get('host', '').rpartition(':')[2]}"  # one of each port


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(_cookie_name(headers))
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _set_cookie(headers: Mapping[str, str], value: str) -> str:
    """The value of a `Set-Cookie` header; "" ends the cookie."""
    secure, ends = "" if _loopback(headers) else "; Secure", "" if value else "; Max-Age=0"
    return f"{_cookie_name(headers)}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"
