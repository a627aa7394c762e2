"""Puts the other packages together to processes: the embedded cluster, its host, a command's cluster."""
