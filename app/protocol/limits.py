"""Every size and count the protocol fixes, in one place (wire §2.1, §10).

Numbers only: what happens when one is passed is written where it is checked. Sizes are bytes unless the name
says otherwise. Settings an operator may change are not here; their defaults live at the edge.
"""

DEFAULT_PORT = 6309
ALPN = "mark"

# The request, in the order its parts arrive (wire §2.1).
LINE_MAX = 4096  # without its line end
PATH_MAX = LINE_MAX - len("VERSIONS ")  # 4087: the longest path that every verb but none longer can carry
BLOCK_MAX = 65_536  # between the fences
BODY_MAX = 1_048_576
PAYLOAD_MAX = BLOCK_MAX + BODY_MAX + 64  # everything behind the line; 64 is slack for the fences
REQUEST_MAX = LINE_MAX + len("\r\n") + PAYLOAD_MAX  # no request the parser accepts is longer

RESPONSE_MAX = 4_194_304  # what a client reads before it gives up

# What an author may attach to a document (wire §8.2) and what that may cost on disk (store §3.7).
PUBLISHER_KEYS_MAX = 50
PUBLISHER_BYTES_MAX = 1024
FRONTMATTER_MAX = 2048

LIST_PAGE_MAX = 1000  # entries
LIST_BYTES_MAX = 1_048_576

LOOKUP_LIMIT_DEFAULT = 10  # rows
LOOKUP_LIMIT_MAX = 1000  # rows
LOOKUP_TERMS_MAX = 32
SNIPPET_MAX = 240
TASK_LIMIT_MAX = 5  # rows, also the default
TASK_QUERY_MAX = 4096  # of the trimmed query
