"""The MCP server: the tools of this room and the documents of its worlds, over stdin and stdout, on the official SDK.

The only module that imports `mcp` (which runs on trio through anyio), and only the command `mcp` imports it. The SDK speaks the protocol; what
a tool takes, does and says is in `tools`, so that all of it can be tested without a client. A tool's failure is a result that the model sees;
only what no tool could have prevented (an unknown tool, a resource that cannot be read) is an error of the protocol.

The SDK passes over lines that are no messages without a word, and over requests whose id is none. Their sender would wait for an answer for
ever, so they get one here (`refusal`). And it gives up what it is at when its input ends, so it is told of the end when all is answered.
"""

import base64
import json

import mcp_types as types
import trio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from app import __version__
from app.agents.answers import Refusal
from app.agents.arguments import schema
from app.agents.resources import Listed, list_documents, read_document
from app.agents.tools import BY_NAME, INSTRUCTIONS, TOOLS, Tool
from app.agents.worlds import Worlds

NAME = "demarkus-appliance"

_MARKDOWN = "text/markdown"

Context = ServerRequestContext[dict[str, object]]


LAST_SECONDS = 5.0
"""How long what was asked before the client closed its end may take: whoever pipes lines in wants all the answers."""


async def serve(worlds: Worlds) -> None:
    """Answers one client on this process's stdin and stdout until it closes them."""
    server = build(worlds)
    unanswered: set[int | str | None] = set()
    answered = trio.lowlevel.ParkingLot()
    async with stdio_server() as (incoming, outgoing), trio.open_nursery() as nursery:
        asked, messages = trio.open_memory_channel[SessionMessage | Exception](0)
        answers, given = trio.open_memory_channel[SessionMessage](0)

        async def listen() -> None:
            async with asked:
                async for item in incoming:
                    error = refusal(item)
                    if error is not None:
                        await outgoing.send(SessionMessage(error))
                        continue
                    if isinstance(item, SessionMessage):
                        _note(item.message, unanswered)
                    await asked.send(item)
                with trio.move_on_after(LAST_SECONDS):
                    while unanswered:
                        await answered.park()

        async def speak() -> None:
            async with outgoing:
                async for answer in given:
                    await outgoing.send(answer)
                    if isinstance(answer.message, types.JSONRPCResponse | types.JSONRPCError):
                        unanswered.discard(answer.message.id)
                        answered.unpark_all()

        nursery.start_soon(listen)
        nursery.start_soon(speak)
        await server.run(messages, answers, server.create_initialization_options())


def _note(message: types.JSONRPCMessage, unanswered: set[int | str | None]) -> None:
    """Keeps account of the requests that will be answered: not those that the client takes back."""
    if isinstance(message, types.JSONRPCRequest):
        unanswered.add(message.id)
    elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
        taken_back = (message.params or {}).get("requestId")
        if isinstance(taken_back, int | str):
            unanswered.discard(taken_back)


def refusal(item: SessionMessage | Exception) -> types.JSONRPCError | None:
    """The answer to what a client sent as a line, if it is no message that will be answered otherwise, or need not be.

    It has the id of the request as far as there is one to be seen.
    """
    if isinstance(item, SessionMessage):
        message = item.message
        # The SDK takes a request with an id of any other kind than number or text for a notification.
        if isinstance(message, types.JSONRPCNotification) and not message.method.startswith("notifications/"):
            return _error(types.INVALID_REQUEST, "a request needs an id, an integer or a text", None)
        return None
    details = item.errors(include_url=False) if isinstance(item, ValidationError) else []
    broken = next((one for one in details if one["type"] == "json_invalid"), None)
    if broken is None:
        whole = next((one["input"] for one in details if one["type"] == "missing"), None)
        return _error(types.INVALID_REQUEST, "no message of JSON-RPC 2.0", _id_in(whole))
    line = broken["input"]
    if not line.strip():
        return None
    try:
        whole = json.loads(line)  # takes some that the SDK does not
    except (ValueError, RecursionError):
        whole = None
    return _error(types.PARSE_ERROR, broken["msg"], _id_in(whole))


def _error(code: int, message: str, identifier: int | str | None) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=identifier, error=error)


def _id_in(whole: object) -> int | str | None:
    """The id of what seems to be a request, if it can be sent back."""
    found = whole.get("id") if isinstance(whole, dict) and "method" in whole else None
    if isinstance(found, str):
        return found if found.isprintable() else None
    return found if type(found) is int else None


def build(worlds: Worlds) -> Server[dict[str, object]]:
    """The server, not yet connected to anything."""

    async def list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(
                types.INVALID_PARAMS, f"unknown tool {params.name!r}; there are {', '.join(BY_NAME)}"
            )
        answer = await tool(worlds, params.arguments or {}, _client_of(context))
        return types.CallToolResult(content=[types.TextContent(text=answer.text)], is_error=answer.failed)

    async def list_resources(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        try:
            page = await list_documents(worlds, params.cursor if params is not None else None)
        except Refusal as refusal:
            raise MCPError(types.INTERNAL_ERROR, str(refusal)) from refusal
        return types.ListResourcesResult(
            resources=list(map(_resource, page.documents)), next_cursor=page.cursor
        )

    async def list_templates(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            name="document",
            title="A document or section",
            uri_template="mark://{host}/{+path}{#anchor}",
            description="A document of a world by its address; one section with its anchor, an older version with /vN behind the path.",
            mime_type=_MARKDOWN,
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            found = await read_document(worlds, params.uri)
        except Refusal as refusal:
            raise MCPError(types.INVALID_PARAMS, str(refusal)) from refusal
        contents: types.TextResourceContents | types.BlobResourceContents
        if isinstance(found, str):
            contents = types.TextResourceContents(uri=params.uri, mime_type=_MARKDOWN, text=found)
        else:
            blob = base64.b64encode(found).decode()
            contents = types.BlobResourceContents(uri=params.uri, mime_type=_MARKDOWN, blob=blob)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        NAME,
        version=__version__,
        title="Demarkus appliance",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _described(tool: Tool) -> types.Tool:
    behaviour = tool.behaviour
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema(tool.arguments),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=behaviour.reads_only,
            destructive_hint=behaviour.destroys,
            idempotent_hint=behaviour.repeats_safely,
            open_world_hint=behaviour.leaves_here,
        ),
    )


def _resource(listed: Listed) -> types.Resource:
    return types.Resource(uri=listed.uri, name=listed.name, title=listed.title or None, mime_type=_MARKDOWN)


def _client_of(context: Context) -> str:
    """The name of the client, for the metadata of what it writes; empty if it gives none."""
    params = context.session.client_params
    return params.client_info.name if params is not None else ""
