"""The command line `talkahead`, and the supervisor of the server that it starts."""
