"""The command line: one module per verb, thin. Only this room prints."""
