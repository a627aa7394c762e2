"""The language of the core: gangs and their places, events that come in, decisions that go out."""
