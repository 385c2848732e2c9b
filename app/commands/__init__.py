"""The command line: one module per subcommand, text and --json, exit codes."""
