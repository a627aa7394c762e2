"""Placing a gang in the domains of the network topology (`search.py` is the way in)."""
