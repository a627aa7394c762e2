"""Composes the other packages into processes, and computes what users see. Only this package wires them."""
