"""The live scheduler: mirrors the cluster, lets the core decide, and commits so that nothing is half done."""
