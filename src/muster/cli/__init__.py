"""The command line: one thin module per command. Only this package prints."""
