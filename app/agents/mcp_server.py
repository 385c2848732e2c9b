"""The MCP server: the tools of this room and the documents of its worlds, over stdin and stdout, on the official SDK.

The only module that imports `mcp` (which runs on trio through anyio), and only the command `mcp` imports it. The SDK speaks the protocol; what
a tool takes, does and says is in `tools`, so that all of it can be tested without a client. A tool's failure is a result that the model sees;
only what no tool could have prevented (an unknown tool, a resource that cannot be read) is an error of the protocol.
"""

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from app import __version__
from app.agents.answers import Refusal
from app.agents.arguments import schema
from app.agents.resources import Listed, list_documents, read_document
from app.agents.tools import BY_NAME, INSTRUCTIONS, TOOLS, Tool
from app.agents.worlds import Worlds

NAME = "demarkus-appliance"

_MARKDOWN = "text/markdown"

Context = ServerRequestContext[dict[str, object]]


async def serve(worlds: Worlds) -> None:
    """Answers one client on this process's stdin and stdout until it closes them."""
    server = build(worlds)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


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
            text = await read_document(worlds, params.uri)
        except Refusal as refusal:
            raise MCPError(types.INVALID_PARAMS, str(refusal)) from refusal
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type=_MARKDOWN, text=text)]
        )

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
