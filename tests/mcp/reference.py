"""Calls tools of MCP servers with the reference client.

Reads a list of servers as JSON, `{"command", "args", "env", "cwd", "calls": [[tool, args]], "required":
{tool: args}}`, and writes for each the names of its tools and the outcome of each call: `ok`, `error` or
`refused`, with its text. No list of calls stands for one call of each tool, with the arguments that it
requires. Several servers run at once.
"""

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

AT_ONCE = 2
SECONDS = 60


async def call(session, tool, args):
    try:
        result = await asyncio.wait_for(session.call_tool(tool, args), SECONDS)
    except Exception as error:  # The client refuses the result, or the server the request.
        return ["refused", f"{type(error).__name__}: {error}"]
    texts = [getattr(block, "text", "") or "" for block in result.content]
    is_error = getattr(result, "is_error", None) or getattr(result, "isError", None)
    return ["error" if is_error else "ok", "\n".join(texts)]


async def tools(session):
    names, cursor = [], None
    while True:
        page = await session.list_tools(params={"cursor": cursor} if cursor else None)
        names += [tool.name for tool in page.tools]
        cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
        if not cursor:
            return names


async def reach(server):
    program = StdioServerParameters(
        command=server["command"], args=server["args"], env=server["env"], cwd=server["cwd"]
    )
    async with stdio_client(program, errlog=open("/dev/null", "w")) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            names = await tools(session)
            calls = server["calls"]
            if calls is None:
                calls = [[name, server["required"].get(name, {})] for name in names]
            return {"tools": names, "calls": [await call(session, *one) for one in calls]}


async def guarded(server, gate):
    async with gate:
        try:
            return await asyncio.wait_for(reach(server), 2 * SECONDS)
        except BaseException as error:
            while getattr(error, "exceptions", None):
                error = error.exceptions[0]
            return {"error": f"{type(error).__name__}: {error}"}


async def main():
    gate = asyncio.Semaphore(AT_ONCE)
    servers = json.load(sys.stdin)
    json.dump(await asyncio.gather(*(guarded(server, gate) for server in servers)), sys.stdout)


asyncio.run(main())
