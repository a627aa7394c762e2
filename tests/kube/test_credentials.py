"""Credentials are read again when they expire or are refused, and not before."""

from collections.abc import Callable

import pytest

from muster.kube.credentials import EARLY, PAUSE, Credentials, Reading


class Source:
    """Tokens 1, 2, … each good for a minute; counts how often it was read."""

    def __init__(self, *, same: bool = False, lifetime: float = 60.0) -> None:
        self.now, self.reads, self.same, self.lifetime = 1000.0, 0, same, lifetime
        self.fails = False
        self.beside: list[Callable[[], None]] = []
        self.credentials = Credentials(self.read(), self.read, lambda: self.now, self.beside.append)

    def read(self) -> Reading:
        self.reads += 1
        if self.fails:
            raise ValueError("the plug-in is gone")
        return Reading({"Authorization": f"token {1 if self.same else self.reads}"}, self.now + self.lifetime)

    @property
    def sent(self) -> str:
        return self.credentials.headers()["Authorization"]


def test_credentials_are_kept_until_they_expire() -> None:
    source = Source()
    assert {source.sent for _ in range(100)} == {"token 1"}
    source.now += 59.9
    assert (source.sent, source.reads) == ("token 1", 1)
    source.now += 0.1
    assert (source.sent, source.sent, source.reads) == ("token 2", "token 2", 2)


def test_credentials_are_read_beside_the_requests_before_they_expire() -> None:
    source = Source()
    source.now += 60 - EARLY
    assert {source.sent for _ in range(100)} == {"token 1"}
    assert (len(source.beside), source.reads, source.credentials.expired) == (1, 1, False)
    source.beside.pop()()
    assert (source.sent, source.reads, source.beside) == ("token 2", 2, [])
    source.now += 60 - EARLY
    assert source.sent == "token 2"
    assert len(source.beside) == 1


def test_a_reading_that_hangs_delays_no_request_while_the_last_is_valid() -> None:
    source = Source()
    source.now += 60 - EARLY
    for _ in range(29):
        assert (source.sent, source.credentials.expired) == ("token 1", False)
        source.now += 1
    assert (len(source.beside), source.reads) == (1, 1)
    source.now += 2
    assert source.credentials.expired


def test_refused_credentials_are_read_again_once_for_all_requests_that_had_them() -> None:
    source = Source()
    source.now += PAUSE
    sent = source.credentials.headers()
    assert all(source.credentials.refused(sent) for _ in range(64))
    assert (source.sent, source.reads) == ("token 2", 2)


def test_refused_credentials_that_stay_the_same_are_read_once_in_a_while() -> None:
    source = Source(same=True)
    source.now += PAUSE
    for _ in range(64):
        assert not source.credentials.refused(source.credentials.headers())
    assert source.reads == 2
    source.now += PAUSE
    assert not source.credentials.refused(source.credentials.headers())
    assert source.reads == 3


def test_credentials_that_expire_at_once_do_not_cost_a_reading_per_request() -> None:
    source = Source(lifetime=0.0)
    for _ in range(100):
        source.credentials.headers()
    assert source.reads == 1
    source.now += PAUSE
    assert (source.sent, source.sent, source.reads) == ("token 2", "token 2", 2)


def test_a_reading_that_fails_leaves_the_last_in_use(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    source.now, source.fails = source.now + 60, True
    assert (source.sent, source.sent, source.reads) == ("token 1", "token 1", 2)
    assert "credentials cannot be renewed: the plug-in is gone" in caplog.text
    source.now, source.fails = source.now + PAUSE, False
    assert source.sent == "token 3"


def test_credentials_without_a_source_never_change() -> None:
    now = 1000.0
    credentials = Credentials(Reading({"Authorization": "t"}, until=0.0), now=lambda: now)
    sent = credentials.headers()
    now += 1e6
    assert not credentials.refused(sent)
    assert credentials.headers() is sent
