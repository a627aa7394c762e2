"""Batch and gang scheduling for Kubernetes: all of it starts, or none of it does."""

__version__ = "0.1.0"
