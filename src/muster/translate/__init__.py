"""Objects → core events, core outcomes → status. One file per dialect of groups."""
