"""Talking to an API server: the client protocol and its HTTP form, watches that resume, leases."""
