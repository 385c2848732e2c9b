"""The same language from the other side: connection, verbs, pins, client tokens."""
