"""What each tool takes: one struct per tool, from which its JSON Schema is made and by which a call is checked.

Names and meanings are those of the reference's MCP server (operations §10), so that prompts written for that one work here. What is added:
`offset` and `before` to go on where an answer was cut, and `cursor` where the reference answers whole. Nothing here knows of MCP or asks
a server; descriptions are read by agents and name only what exists.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.agents.answers import Refusal
from app.protocol.limits import LIST_PAGE_MAX, LOOKUP_LIMIT_MAX

__all__ = [
    "UNSET",
    "Append",
    "Archive",
    "Backlinks",
    "Explore",
    "Fetch",
    "Help",
    "Listing",
    "Lookup",
    "LookupAll",
    "Map",
    "Publish",
    "Versions",
    "parse",
    "schema",
]

Url = Annotated[
    str,
    Meta(
        description="address of a document or folder: mark://host/path, or /path when the server was started for one host"
    ),
]
Scope = Annotated[
    str,
    Meta(
        description="the folder to search, such as mark://host/ or mark://host/docs/; or its path alone; all of the world unless given, when the server was started for one host"
    ),
]
Query = Annotated[
    str,
    Meta(
        description="the task or question in your own words, in one call; exact names, flags and error texts in double quotes"
    ),
]
Filter = Annotated[
    str,
    Meta(
        description="conditions that must all hold, separated by commas: tag=rope, type=Guide, modified-after=2026-01-31"
    ),
]
Limit = Annotated[
    int,
    Meta(
        description="most rows to return (task 5 at most; catalog and body 10 by default)",
        ge=1,
        le=LOOKUP_LIMIT_MAX,
    ),
]
Match = Annotated[
    Literal["task", "body", "catalog"],
    Meta(
        description="task (the default): sections that together cover a task; body: sections with every word; catalog: documents by "
        "title and tags, `*` for all of them"
    ),
]
Budget = Annotated[
    int,
    Meta(
        description="about how many tokens the answer may take; snippets go first, then rows from the end",
        ge=1,
    ),
]
Verbose = Annotated[bool, Meta(description="all metadata of the answer, not only what is mostly needed")]
PublisherMetadata = Annotated[
    dict[str, str],
    Meta(
        description="what is attached to the document: title, tags (a,b), importance (0 to 1), type, description, rel-* links; "
        "left out, that of the version replaced is kept"
    ),
]


class _Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a call gives; what it leaves out has its default."""


class Fetch(_Arguments, frozen=True):
    url: Annotated[
        str,
        Meta(
            description="address of a document, mark://host/path.md; with #anchor one section of it, with /vN behind the path an older version; "
            "or of a folder; or /path alone when the server was started for one host"
        ),
    ]
    force: Annotated[
        bool, Meta(description="the text of a document even if it is large, instead of its outline")
    ] = False
    offset: Annotated[int, Meta(description="go on at this byte, as the end of a cut answer says", ge=0)] = 0
    verbose: Verbose = False


class Listing(_Arguments, frozen=True):
    url: Url
    include_archived: Annotated[bool, Meta(description="archived documents too")] = False
    cursor: (
        Annotated[str, Meta(description="where the page before ended, as its answer says")] | UnsetType
    ) = UNSET
    page_size: Annotated[int, Meta(description="most entries to return", ge=1, le=LIST_PAGE_MAX)] = (
        LIST_PAGE_MAX
    )


class Versions(_Arguments, frozen=True):
    url: Url
    before: (
        Annotated[
            int,
            Meta(description="only versions older than this number, as the end of a cut answer says", ge=1),
        ]
        | UnsetType
    ) = UNSET


class Lookup(_Arguments, frozen=True, kw_only=True):
    url: Scope = "/"
    query: Query
    filter: Filter | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET
    match: Match | UnsetType = UNSET
    budget: Budget | UnsetType = UNSET
    verbose: Verbose = False


class LookupAll(_Arguments, frozen=True):
    query: Query
    filter: Filter | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET
    match: Match | UnsetType = UNSET
    budget: Budget | UnsetType = UNSET


class Explore(_Arguments, frozen=True):
    url: Url
    direction: Annotated[
        Literal["outgoing", "incoming", "both"],
        Meta(
            description="links from the document, links to it, or both; incoming ones are looked for in every document of its world"
        ),
    ] = "outgoing"
    relations: Annotated[
        list[str],
        Meta(
            description="only these kinds: link for links in the text, else the name behind rel- in the metadata",
            max_length=50,
        ),
    ] = []
    page_size: Annotated[int, Meta(description="most links to return", ge=1, le=100)] = 50
    cursor: Annotated[str, Meta(description="where the answer before ended, as its end says")] | UnsetType = (
        UNSET
    )
    verbose: Annotated[bool, Meta(description="title, version and tags of the document too")] = False


class Backlinks(_Arguments, frozen=True):
    url: Url
    cursor: Annotated[str, Meta(description="where the answer before ended, as its end says")] | UnsetType = (
        UNSET
    )


class Publish(_Arguments, frozen=True):
    url: Annotated[str, Meta(description="address of the document, ending in .md; or its path alone")]
    body: Annotated[
        str,
        Meta(
            description="the whole text, markdown; it replaces the current text (an empty one only brings an archived document back)"
        ),
    ]
    expected_version: Annotated[
        int, Meta(description="the version you have read and mean to replace; 0 for a new document", ge=0)
    ]
    on_conflict: Annotated[
        Literal["merge", "fail"],
        Meta(
            description="when somebody wrote in between, nothing is written: merge (the default) shows both changes joined, for you to review"
        ),
    ] = "merge"
    metadata: PublisherMetadata | UnsetType = UNSET


class Append(_Arguments, frozen=True):
    url: Annotated[str, Meta(description="address of the document, ending in .md; or its path alone")]
    body: Annotated[str, Meta(description="the text to add at the end, markdown")]
    expected_version: Annotated[
        int, Meta(description="the version you have read; 0 or nothing for the current one", ge=0)
    ] = 0


class Archive(_Arguments, frozen=True):
    url: Annotated[str, Meta(description="address of the document; or its path alone")]


class Map(_Arguments, frozen=True):
    url: Annotated[
        str,
        Meta(
            description="the world or a folder of it, such as mark://host/; with `search` also a single document"
        ),
    ] = "/"
    search: Query | UnsetType = UNSET


class Help(_Arguments, frozen=True):
    search: (
        Annotated[
            str, Meta(description="the task or question in your own words; without it the list of pages")
        ]
        | UnsetType
    ) = UNSET
    page: (
        Annotated[
            str,
            Meta(
                description="a page of the manual, such as /tokens.md or /tokens.md#sending-a-token, or its name alone, tokens; or a folder such as /board; with `search` the scope"
            ),
        ]
        | UnsetType
    ) = UNSET


T = TypeVar("T", bound=_Arguments)


def schema(kind: type[_Arguments]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments: an object at its root, without references."""
    _, components = msgspec.json.schema_components([kind])
    found: dict[str, Any] = components[kind.__name__]
    found.pop("title", None)
    found.pop("description", None)
    return found


def parse(kind: type[T], given: dict[str, Any]) -> T:
    """The arguments of a call. Raises `Refusal` naming what is wrong and what there is.

    What is null counts as left out, and a number or a truth value may come as text: models write both.
    """
    present = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(present, kind, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(kind.__struct_fields__)
        raise Refusal(f"wrong arguments: {_plain(str(error))} (the arguments are: {known})") from None


def _plain(message: str) -> str:
    """msgspec's message, with the argument named as its caller knows it."""
    return (
        message.replace(" - at `$.", " in `")
        .replace("Object contains unknown field", "unknown argument")
        .replace("Object missing required field", "missing argument")
    )
