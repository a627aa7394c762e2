"""Which gang is next (`Attempts`), and what it may have (`Grant`, `Attempt`)."""
