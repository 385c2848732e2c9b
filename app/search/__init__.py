"""Words, catalog entries and filters, the section index, one ranker per mode. Pure: no files, no trio."""
