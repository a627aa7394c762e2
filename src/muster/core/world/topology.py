"""The network topology: which nodes share a switch, as a tree of domains that is keyed by path.

The administrator names the layers from the widest to the narrowest and, for each, the node labels that
give a node's domain. A domain is identified by its path, so block b1 below spine s1 and block b1 below spine
s2 are two domains. Two layers always exist: the cluster above all others, and the node below them.

Nodes with the same labels of all layers form one *cell*. Cells are in order of path, so the cells of a domain
of any layer are adjacent, and so are the nodes of a cell in `order`. Summing a value over every domain
therefore takes one gather of the nodes (`sums`) and then one short pass per layer (`totals`). A node that
lacks a layer's label is in no domain of that layer. When labels change, only those nodes' paths are read
again, and the cells are renumbered only if a path has changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.words.gang import Layer, NodeName
from muster.core.world.nodes import Columns, Ints, Longs, Nodes

#: Layers that are always there (koordinator, apis/scheduling/v1alpha1/cluster_network_topology_types.go).
CLUSTER: Final = "ClusterTopologyLayer"
NODE: Final = "NodeTopologyLayer"

#: A domain's names from the widest layer down; "" where a node has no label.
Path = tuple[str, ...]


@dataclass(slots=True, eq=False)
class Level:
    """One layer. Its domains are numbered in order of path; some numbers belong to nodes without a label."""

    name: str
    #: by number: the path down to this layer
    paths: list[Path]
    #: by number: the first cell; one more entry marks the end of the last
    starts: Columns
    #: by number: whether it is a domain, and not the nodes that have no label
    labelled: npt.NDArray[np.bool_]
    #: by column: the number of its domain, -1 for none
    domains: Ints


class Topology:
    """The tree over the columns of `nodes`. Call `refresh` before reading it."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.layers: tuple[Layer, ...] = ()
        self.levels: list[Level] = []
        #: columns in order of path, then name, and each column's position in it
        self.order: Columns = np.zeros(0, np.intp)
        self.position: Columns = np.zeros(0, np.intp)
        #: by cell: where its columns start in `order`; one more entry marks the end of the last
        self.starts: Columns = np.zeros(1, np.intp)
        #: by column: its cell
        self.cells: Columns = np.zeros(0, np.intp)
        self._paths: list[Path] = []
        #: how much of the log of changed facts `_paths` has; -1: none
        self._position = -1
        self._stale = True
        #: how often the domains were renumbered
        self.version = 0
        #: whether the columns are in order of path already
        self.by_name = True

    def change(self, layers: tuple[Layer, ...]) -> None:
        """Set the layers, widest first."""
        layers = tuple(layer for layer in layers if layer.name not in (CLUSTER, NODE))
        if layers != self.layers:
            self.layers = layers
            self._position = -1
            self._nodes.revision += 1
            self._nodes.room.change()

    @property
    def names(self) -> list[str]:
        """The layers that a rule may name, from the widest to the narrowest."""
        return [CLUSTER, *(layer.name for layer in self.layers), NODE]

    def refresh(self) -> None:
        """Update the tree to the nodes as they are now."""
        nodes = self._nodes
        if (changed := nodes.fact_changes.since(self._position)) is None:
            self._paths = [self._path(name) for name in nodes.names]
            self._stale = True
        else:
            for column in set(changed):
                path = self._path(nodes.names[column])
                self._stale = self._stale or path != self._paths[column]
                self._paths[column] = path
        self._position = nodes.fact_changes.end
        if self._stale:
            self._number()
            self._stale = False

    def sums(self, values: Ints | Longs) -> Longs:
        """Return by cell the sum of a value that is given by column."""
        if not self._paths:
            return np.zeros(0, np.int64)
        ordered = values if self.by_name else values[self.order]
        return np.add.reduceat(ordered, self.starts[:-1], dtype=np.int64)

    def totals(self, level: int, sums: Longs) -> Longs:
        """Return by domain of a level, which is not the node's, the total of sums by cell."""
        starts = self.levels[level].starts
        if len(starts) - 1 == len(sums):
            return sums
        totals: Longs = np.add.reduceat(sums, starts[:-1])
        return totals

    def columns(self, level: int, number: int) -> Columns:
        """Return the columns of a domain, ascending."""
        if level == len(self.levels) - 1:
            return np.array([number], np.intp)
        cells = self.levels[level].starts
        columns = self.order[self.starts[cells[number]] : self.starts[cells[number + 1]]]
        return columns if self.by_name else np.sort(columns)

    def size(self, level: int, number: int) -> int:
        """How many nodes a domain has."""
        columns = self.columns(level, number).tolist()
        return sum(self._nodes.names[column] in self._nodes.facts for column in columns)

    def above(self, numbers: Columns, level: int, wider: int) -> Columns:
        """Return the numbers, at a wider level, of the domains that contain these."""
        cells = self.levels[level].starts[numbers]
        above: Columns = self.levels[wider].starts.searchsorted(cells, side="right") - 1
        return above

    def title(self, level: int, number: int) -> str:
        """Return a domain's name for messages: "SpineLayer s1/b2", "node-7", "the cluster"."""
        if level == 0:
            return "the cluster"
        if level == len(self.levels) - 1:
            return self._nodes.names[number]
        found = self.levels[level]
        return f"{found.name} {show(found.paths[number])}"

    def _path(self, name: NodeName) -> Path:
        fact = self._nodes.facts.get(name)
        labels = dict(fact.labels) if fact is not None and self.layers else {}
        return tuple(next(filter(None, map(labels.get, layer.keys)), "") for layer in self.layers)

    def _number(self) -> None:
        """Number cells and domains in order of path."""
        self.version += 1
        cells = sorted(set(self._paths))
        cell = {path: number for number, path in enumerate(cells)}
        self.cells = np.array([cell[path] for path in self._paths], np.intp)
        of_column = self.cells.astype(np.int32)
        self.order = np.argsort(of_column, kind="stable")
        self.position = np.empty_like(self.order)
        self.position[self.order] = np.arange(len(self.order))
        self.by_name = bool((of_column[1:] >= of_column[:-1]).all())
        self.starts = np.searchsorted(of_column[self.order], np.arange(len(cells) + 1))
        self.levels = [_level(name, depth, cells, of_column) for depth, name in enumerate(self.names[:-1])]
        every = np.arange(len(self._paths))
        self.levels.append(
            Level(
                NODE,
                [(*path, name) for path, name in zip(self._paths, self._nodes.names, strict=True)],
                np.append(self.cells, len(cells)),
                np.ones(len(every), np.bool_),
                every.astype(np.int32),
            )
        )


def _level(name: str, depth: int, cells: Sequence[Path], of_column: Ints) -> Level:
    """Build the level of this depth: 0 is the cluster."""
    paths: list[Path] = []
    starts: list[int] = []
    for number, path in enumerate(cells):
        if not paths or paths[-1] != path[:depth]:
            paths.append(path[:depth])
            starts.append(number)
    begins = np.array([*starts, len(cells)], np.intp)
    labelled = np.array([not path or bool(path[-1]) for path in paths], np.bool_)
    of_cell = np.repeat(np.arange(len(paths)), np.diff(begins)).astype(np.int32)
    of_cell[~labelled[of_cell]] = -1
    return Level(name, paths, begins, labelled, of_cell[of_column])


def named(name: str, layers: Sequence[str]) -> str | None:
    """Return the layer of this name, or the only one that differs by case; None: there is none."""
    if name in layers:
        return name
    alike = [known for known in layers if known.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def show(path: Path) -> str:
    return "/".join(name or "?" for name in path)
