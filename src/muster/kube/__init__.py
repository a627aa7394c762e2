"""Access to an API server: the client protocol, its implementation over HTTP, and watches that resume."""
