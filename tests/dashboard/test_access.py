"""Only who has opened the printed address sees anything, and no other site or user does."""

import pytest

from muster.dashboard.access import HEADERS, Access, Answer

PORT = 4711
HERE = {"host": f"127.0.0.1:{PORT}"}
NAME = f"muster-dashboard-{PORT}"


@pytest.fixture
def access() -> Access:
    return Access(PORT)


def with_cookie(access: Access) -> dict[str, str]:
    return {**HERE, "cookie": access.cookie.partition(";")[0]}


def test_a_token_is_valid_once_and_gives_a_cookie(access: Access) -> None:
    assert access.judge(HERE, access.token) is Answer.COOKIE
    assert access.judge(HERE, access.token) is Answer.NO_ACCESS
    assert access.judge(with_cookie(access), None) is Answer.PAGE


def test_a_viewer_who_opens_the_address_again_gets_the_page_without_the_token(access: Access) -> None:
    access.judge(HERE, access.token)
    assert access.judge(with_cookie(access), access.token) is Answer.COOKIE


@pytest.mark.parametrize("token", [None, "", "x", "\u00e9", "x" * 10_000])
def test_without_the_token_nothing_is_shown_and_it_stays_valid(access: Access, token: str | None) -> None:
    assert access.judge(HERE, token) is Answer.NO_ACCESS
    assert access.judge(HERE, access.token) is Answer.COOKIE


@pytest.mark.parametrize("cookie", ["", "x", f"{NAME}=", f"{NAME}=\u00e9", "muster-dashboard-1=x", ";=;"])
def test_a_false_cookie_shows_nothing(access: Access, cookie: str) -> None:
    assert access.judge({**HERE, "cookie": cookie}, None) is Answer.NO_ACCESS


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("host", "evil.example"),  # its name now leads to this address
        ("host", f"evil.example:{PORT}"),
        ("host", "127.0.0.1"),
        ("host", f"127.0.0.1:{PORT + 1}"),
        ("host", ""),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", f"http://127.0.0.1:{PORT + 1}"),
    ],
)
def test_another_host_or_origin_reads_nothing(access: Access, header: str, value: str) -> None:
    headers = {**with_cookie(access), header: value}
    assert access.judge(headers, None) is Answer.WRONG_HOST
    assert access.judge(headers, access.token) is Answer.WRONG_HOST
    assert access.judge(HERE, access.token) is Answer.COOKIE  # it has not been used up


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}"])
def test_this_host_has_two_names(access: Access, host: str) -> None:
    headers = {**with_cookie(access), "host": host, "origin": f"http://{host}"}
    assert access.judge(headers, None) is Answer.PAGE


def test_no_inline_script_and_no_other_origin_is_permitted() -> None:
    policy = dict(each.split(" ", 1) for each in HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert set(policy.values()) <= {"'none'", "'self'"}
