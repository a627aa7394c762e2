"""What users see: computed from objects and records, never stored."""
