"""One door to cmark, the one section rule, markup stripping, snippets. Pure."""
