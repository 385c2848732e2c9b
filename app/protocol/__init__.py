"""The language: bytes and values. No files, no sockets, no clock, no trio."""
