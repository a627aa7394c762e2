"""`python -m muster` is `muster`."""

from muster.cli.main import main

main()
