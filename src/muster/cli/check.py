"""`muster check FILE`: what is wrong with it, and, against nodes, whether it could ever start."""

from muster.cli.options import File, Gang, Nodes, Volumes


def command(file: File, gang: Gang = None, nodes: Nodes = "", volume: Volumes = None) -> None:
    raise NotImplementedError
