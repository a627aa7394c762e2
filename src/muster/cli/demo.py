"""`muster demo`."""


def command() -> None:
    raise NotImplementedError
