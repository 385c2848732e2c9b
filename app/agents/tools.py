"""The tools as an agent sees them: name, what it is told about each, what each takes, how each behaves, and what runs when it is called.

The one table of the MCP server; everything a client shows of a tool comes from here. Descriptions are read by models, at a price for every word:
they say when to use a tool and what its answer looks like. Words in backticks are names of tools, arguments or their values, which a test holds
against the schemas.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from app.agents import arguments as take
from app.agents.answers import Answer, Refusal, refused
from app.agents.exploring import backlinks, explore
from app.agents.finding import lookup, lookup_all
from app.agents.orientation import help_page, world_map
from app.agents.reading import fetch, listing, versions
from app.agents.worlds import Worlds
from app.agents.writing import append, archive, publish

INSTRUCTIONS = """\
Worlds of versioned markdown documents, addressed as mark://host/path.md.
To do a task: send it once to `mark_lookup`, whole and in your own words, with exact names in double quotes. Each row names a section that \
answers all of it (complete) or part of it (partial). Read the rows you need with `mark_fetch` and the address with #anchor, instead of whole documents.
Answers say how much they show of how much there is; a cut one ends with the next call. Nothing found is not proof that nothing is there: say where you looked.
To write, give the version you have read; on a conflict nothing is written.
`help` explains how this program is used and run."""


class Behaviour(msgspec.Struct, frozen=True):
    """The hints a client uses to decide whether to ask a person first."""

    reads_only: bool = True
    destroys: bool = False
    repeats_safely: bool = True
    leaves_here: bool = True
    """Whether it asks a server, of which there may be any, and which may answer anything."""


class Tool(msgspec.Struct, frozen=True):
    """One tool; `run` is given its checked arguments and the name of the client."""

    name: str
    title: str
    description: str
    arguments: type[Any]
    run: Callable[[Worlds, Any, str], Awaitable[Answer]]
    behaviour: Behaviour = Behaviour()

    async def __call__(self, worlds: Worlds, given: dict[str, Any], agent: str) -> Answer:
        """Runs a call. What is wrong with it, or in the way, is an answer too."""
        try:
            return await self.run(worlds, take.parse(self.arguments, given), agent)
        except Refusal as refusal:
            return refused(str(refusal))


TOOLS = (
    Tool(
        "mark_lookup",
        "Find sections for a task",
        "Finds what to read in one world. Send the whole task in one call, in your own words; put exact names, flags and error texts in double "
        "quotes. The best sections come back as rows with address, title, snippet and `match`: a complete row covers all of the task, partial rows each cover "
        "part of it. Then call `mark_fetch` with a row's path#anchor. No rows means nothing was found there, not that nothing exists.",
        take.Lookup,
        lambda worlds, given, agent: lookup(worlds, given),
    ),
    Tool(
        "mark_lookup_all",
        "Find sections in all worlds",
        "The same search in every world this server was started with, at once. Rows are merged and each has its whole address; a world that failed is named "
        "beside the rows of the others.",
        take.LookupAll,
        lambda worlds, given, agent: lookup_all(worlds, given),
    ),
    Tool(
        "mark_fetch",
        "Read a document or section",
        "Reads a section (address with #anchor), a document, an older version (/vN behind the path) or a folder. A document over 8 kB is "
        "answered with its outline, the sizes and anchors of its sections; `force` gives its text. A text that is too long for one answer ends with the call that goes on.",
        take.Fetch,
        lambda worlds, given, agent: fetch(worlds, given),
    ),
    Tool(
        "map",
        "Overview of a world",
        "What a world holds: folders with titles and counts, the most important documents. With `search`, your task in your own words (exact names in "
        "quotes), it answers like `mark_lookup`, in a folder or also in a single document given as `url`.",
        take.Map,
        lambda worlds, given, agent: world_map(worlds, given),
    ),
    Tool(
        "mark_list",
        "List a folder",
        "The names directly in a folder; folders end in a slash. Long ones come in pages.",
        take.Listing,
        lambda worlds, given, agent: listing(worlds, given),
    ),
    Tool(
        "mark_versions",
        "History of a document",
        "The versions of a document with their times, newest first, and whether its chain of hashes holds.",
        take.Versions,
        lambda worlds, given, agent: versions(worlds, given),
    ),
    Tool(
        "mark_explore",
        "Follow links",
        "The links of a document: those in its text and those its author declared (rel-* metadata), outgoing, incoming or both.",
        take.Explore,
        lambda worlds, given, agent: explore(worlds, given),
    ),
    Tool(
        "mark_backlinks",
        "Who links here",
        "The documents of the same world that link to a document. It has to read them all: in a large world it takes several calls, each of which says how far it came.",
        take.Backlinks,
        lambda worlds, given, agent: backlinks(worlds, given),
    ),
    Tool(
        "mark_publish",
        "Write a document",
        "Writes the whole text of a document as a new version; older ones are kept. Read it first and give its version as `expected_version` (0 for a new document). "
        "If somebody wrote in between nothing is written, and with `on_conflict` `merge` both changes are shown joined for you to review.",
        take.Publish,
        publish,
        Behaviour(reads_only=False, destroys=True, repeats_safely=True),
    ),
    Tool(
        "mark_append",
        "Add to a document",
        "Adds text at the end of a document as a new version, for logs and journals; the rest and the metadata stay.",
        take.Append,
        append,
        Behaviour(reads_only=False, repeats_safely=False),
    ),
    Tool(
        "mark_archive",
        "Archive a document",
        "Takes a document out of sight: it is no longer listed, found or served, but its versions are kept and it can be brought back.",
        take.Archive,
        lambda worlds, given, agent: archive(worlds, given),
        Behaviour(reads_only=False, destroys=True, repeats_safely=True),
    ),
    Tool(
        "help",
        "How this program is used",
        "The manual of this program, bundled with it: a list of pages, a `page`, or with `search` the sections that answer a question about using or running it.",
        take.Help,
        lambda worlds, given, agent: help_page(given),
        Behaviour(leaves_here=False),
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
