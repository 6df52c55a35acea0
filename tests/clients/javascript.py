"""The JavaScript SDK and its hooks for React."""

import httpx

from harness import case, node


@case
async def the_sdk_runs_streams_asks_and_answers(_, server):
    await node("sdk.mjs", server.url)


@case
async def the_hook_of_the_sdk_goes_on_after_a_reload(_, server):
    await node("hook.mjs", server.url)


@case
async def the_hook_of_langchain_react_goes_on_after_a_reload(_, server):
    # The newer hook sends commands to threads and follows all their events.
    async with httpx.AsyncClient(base_url=server.url) as http:
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        answer = await http.post(f"/threads/{thread}/commands", json={"id": 1, "method": "state.get", "params": {}})
    if answer.status_code == 404:
        print("SKIPPED(no commands to threads): useStream of @langchain/react")
        return
    await node("hook_commands.mjs", server.url)
