"""What the embedded cluster keeps on disk: objects, their changes, and what ended."""
