"""The live scheduler: mirrors the cluster, lets the core decide, and commits each decision as a whole."""
