"""The bodies of Events."""

from datetime import UTC, datetime

from muster.effects import events

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_long_names_and_messages_stay_within_the_api_servers_limits() -> None:
    about = {"kind": "Job", "namespace": "ns", "name": "n" * 253, "uid": "u"}
    event = events.first(about, "Normal", "Started", "m" * 2000, "muster", NOW, "identity")
    assert len(event["metadata"]["name"]) <= 253
    assert (event["involvedObject"], len(event["message"])) == (about, 1024)
