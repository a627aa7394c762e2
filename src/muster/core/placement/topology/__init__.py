"""Placing a gang in the domains of the network topology (`gathering.py` is the way in)."""
