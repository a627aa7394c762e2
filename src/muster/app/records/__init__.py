"""What is remembered of jobs and pods after they are gone, and the runs of those that exist."""
