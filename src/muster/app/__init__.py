"""Who runs together in one process, and what people are shown: the only place that wires rooms."""
