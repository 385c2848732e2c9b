"""The Debian package."""
