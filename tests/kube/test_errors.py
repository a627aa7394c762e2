"""What an API server says with an error is bounded and harmless wherever it is shown."""

from muster.kube.errors import LONGEST, ApiError, Expired, Forbidden, ServerError, from_status


def test_a_message_of_any_length_with_any_character_is_bounded_and_harmless() -> None:
    error = from_status({"message": "\x1b[31mno\x00\u202e" + "y" * 2_000_000}, 500)
    assert error.message.startswith("\N{REPLACEMENT CHARACTER}[31mno\N{REPLACEMENT CHARACTER}")
    assert len(error.message) == LONGEST + 2
    assert error.message.isprintable()


def test_a_message_of_several_lines_stays_as_it_is() -> None:
    message = "resource Pod/default/a was blocked:\n\nrequire-team:\n\tno label team: größer"
    error = from_status({"message": message, "reason": "Forbidden"}, 403)
    assert isinstance(error, Forbidden)
    assert error.message == message


def test_an_error_without_a_message_says_its_status() -> None:
    error = from_status({"reason": "Teapot"}, 418)
    assert isinstance(error, ApiError)
    assert (error.status, error.message) == (418, "HTTP 418")


def test_a_revision_that_the_server_does_not_know_yet_is_as_good_as_one_that_it_no_longer_knows() -> None:
    message = "Timeout: Too large resource version: 712, current: 84"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    body = {"reason": "Timeout", "message": message, "details": {"causes": [cause], "retryAfterSeconds": 1}}
    error = from_status(body, 504)
    assert isinstance(error, Expired)
    assert (error.status, error.message) == (504, message)
    assert isinstance(from_status({"reason": "Timeout", "message": "Timeout: no answer"}, 504), ServerError)
