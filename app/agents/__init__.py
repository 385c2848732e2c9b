"""What agents get: `map` and `help` over the task search, and the MCP server."""
