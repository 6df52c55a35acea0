"""`threads.stream` of the Python SDK, over server-sent events and over WebSocket."""

import asyncio

from harness import Proxy, case, equal, until

KINDS = ["sse", "websocket"]


async def asked(thread):
    """Waits until the run of a thread asks."""

    async def interrupted():
        return thread.interrupted

    await until(interrupted)


@case
async def a_question_is_asked_and_answered(client, _):
    for kind in KINDS:
        async with client.threads.stream(assistant_id="inter", transport=kind) as thread:
            await thread.run.start(input={"q": "py"})
            await asked(thread)
            await thread.run.respond("yes")
            equal((await thread.output)["note"], "done:yes")


@case
async def messages_tools_and_subgraphs_are_streamed(client, _):
    question = {"messages": [{"type": "human", "content": "2+3?"}]}
    for kind in KINDS:
        async with client.threads.stream(assistant_id="agent", transport=kind) as thread:
            await thread.run.start(input=question)
            # Handles are complete when the run is.
            handles = [message async for message in thread.messages]
            texts = ["".join([part async for part in message.text]) for message in handles]
            equal(texts, ["Let me add these", "The answer is 5 as computed by the tool"])
        async with client.threads.stream(assistant_id="agent", transport=kind) as thread:
            await thread.run.start(input=question)
            handles = [call async for call in thread.tool_calls]
            calls = [(call.name, (await call.output)["content"]) for call in handles]
            equal(calls, [("add", "5")])
        async with client.threads.stream(assistant_id="parent", transport=kind) as thread:
            await thread.run.start(input={"msg": "a"})
            children = [child.path async for child in thread.subgraphs]
            equal([path[0].split(":")[0] for path in children], ["sub"])


@case
async def a_connection_that_is_cut_continues(client, server):
    from langgraph_sdk import get_client

    steps = 8

    async def stream(kind, url):
        async with get_client(url=url).threads.stream(assistant_id="slow", transport=kind) as thread:
            await thread.run.start(input={"steps": steps, "delay": 0.2})
            logs = []
            async for event in thread.subscribe(["values"]):
                logs.append(event["params"]["data"].get("log", []))
            equal(logs, [[f"step{n}" for n in range(done)] for done in range(steps + 1)])

    async with Proxy(server.address, 0.5) as proxy:
        await asyncio.gather(*(stream(kind, proxy.url) for kind in KINDS))
        assert proxy.cuts >= 4, proxy.cuts
        return f"{proxy.cuts} cuts"
