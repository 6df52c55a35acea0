import asyncio, sys
from langgraph_sdk import get_client

async def main(url):
    client = get_client(url=url)
    thread = (await client.threads.create())["thread_id"]
    async for part in client.runs.stream(thread, "echo", input={"msg": "hello"}, stream_mode="updates"):
        if part.event == "updates":
            print(part.data)
    state = await client.threads.get_state(thread)
    print(state["values"], [await client.runs.wait(thread, "echo", input={"msg": "again"})])

asyncio.run(main(sys.argv[1]))
