"""Which muster this is: where any room may read it."""

VERSION = "0.2.0"
