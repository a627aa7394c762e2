"""Translates objects into core events, and core outcomes into status. One file per dialect of groups."""
