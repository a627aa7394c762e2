"""Whose turn it is, and what it may have (`attempts.py` is the way in)."""
