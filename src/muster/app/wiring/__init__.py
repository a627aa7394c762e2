"""Composes the other packages into processes: the embedded cluster, its host, a command's cluster."""
