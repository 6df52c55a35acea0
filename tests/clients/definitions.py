"""Clients of today against an agent that is defined in a folder of files, with the embedded model."""

import httpx

from harness import case, equal, items, node, result

AGENT = "golf-rules"
ASKED = {"messages": [{"role": "user", "content": "How many clubs may a player carry?"}]}


@case
async def a_definition_is_listed_asked_and_streamed(client, server):
    if client is None:
        await node("definitions.mjs", server.url)
        return
    found = await result(client.assistants.search(limit=100))
    listed = [row for row in found if row["graph_id"] == AGENT]
    equal(len(listed), 1)
    schemas = await result(client.assistants.get_schemas(listed[0]["assistant_id"]))
    assert "messages" in schemas["input_schema"]["properties"], schemas
    at = (await result(client.threads.create()))["thread_id"]
    modes = ["values", "messages-tuple", "updates"]
    parts = await items(client.runs.stream(at, AGENT, input=ASKED, stream_mode=modes))
    final = [part.data for part in parts if part.event == "values"][-1]["messages"][-1]
    assert "14" in final["content"], final
    streamed = [part.data[0] for part in parts if part.event == "messages"]
    text = "".join(chunk["content"] for chunk in streamed if chunk["type"] == "AIMessageChunk")
    equal(text, final["content"])
    state = await result(client.threads.get_state(at))
    equal([message["type"] for message in state["values"]["messages"]], ["human", "ai"])
    # The second turn is a run in the background, of which a build makes a deliverable.
    build = {**ASKED, "mode": "build"}
    run = await result(client.runs.create(at, AGENT, input=build))
    values = await result(client.runs.join(at, run["run_id"]))
    made = values["answer"]["metadata"]["deliverable"]["id"]
    listed = httpx.get(f"{server.url}/deliverables", params={"conversationId": at}).json()["content"]
    equal([(one["id"], one["current"]) for one in listed], [(made, 1)])
    equal(len(values["messages"]), 4)
    history = await result(client.threads.get_history(at, limit=2))
    equal(history[0]["next"], [])
    found = await result(client.threads.search(metadata={"graph_id": AGENT}, limit=100))
    assert at in [row["thread_id"] for row in found], found

