"""The node agent: pods of the embedded cluster as local processes."""
