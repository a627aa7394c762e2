"""Which muster this is: where any room may read it."""

from typing import Final

VERSION: Final = "0.1.0"
