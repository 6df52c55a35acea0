"""The Python SDK, with its asynchronous and its synchronous client."""

import json

import httpx
from langgraph_sdk import errors

from harness import case, equal, items, result, until

MISSING = "00000000-0000-4000-8000-000000000000"
UPDATES = [{"slow": {"log": [f"step{n}"]}} for n in range(9)]


async def thread(client):
    return (await result(client.threads.create()))["thread_id"]


async def wait(client, at, graph, value=None, **more):
    return await result(client.runs.wait(at, graph, input=value, **more))


async def events(client, at, graph, value, mode, **more):
    stream = client.runs.stream(at, graph, input=value, stream_mode=mode, **more)
    return [(part.event, part.data) for part in await items(stream)]


async def refused(status, call):
    """Fails unless a call is refused with a status."""
    try:
        await result(call())
    except (errors.APIStatusError, httpx.HTTPStatusError) as found:
        equal(found.response.status_code, status)
        return
    raise AssertionError(f"not refused, expected status {status}")


@case
async def threads_are_created_found_changed_copied_and_deleted(client, _):
    threads, mark = client.threads, f"{id(client)}"
    made = await result(threads.create(metadata={"mark": mark}))
    at = made["thread_id"]
    equal((made["status"], made["metadata"]["mark"]), ("idle", mark))
    again = await result(threads.create(thread_id=at, if_exists="do_nothing"))
    equal(again["thread_id"], at)
    await refused(409, lambda: threads.create(thread_id=at))
    await result(threads.update(at, metadata={"more": 1}))
    found = await result(threads.search(metadata={"mark": mark, "more": 1}))
    equal([row["thread_id"] for row in found], [at])
    equal(await result(threads.count(metadata={"mark": mark})), 1)
    await wait(client, at, "echo", {"msg": "a"})
    await result(threads.copy(at))
    copies = await result(threads.search(metadata={"mark": mark}, values={"out": "echo:a"}))
    equal(len(copies), 2)
    await result(threads.delete(at))
    await refused(404, lambda: threads.get(at))


@case
async def a_run_in_the_background_is_joined_and_listed(client, _):
    at = await thread(client)
    run = await result(client.runs.create(at, "slow", input={"delay": 0.01}, metadata={"a": 1}))
    equal((run["thread_id"], run["metadata"]["a"]), (at, 1))
    values = await result(client.runs.join(at, run["run_id"]))
    equal(values["log"], ["step0", "step1", "step2"])
    equal((await result(client.runs.get(at, run["run_id"])))["status"], "success")
    equal([row["run_id"] for row in await result(client.runs.list(at))], [run["run_id"]])
    equal(await result(client.runs.list(at, status="error")), [])
    await refused(404, lambda: client.runs.get(at, MISSING))


@case
async def a_run_is_waited_for(client, _):
    at = await thread(client)
    equal(await wait(client, at, "echo", {"msg": "a"}), {"msg": "a", "out": "echo:a", "n": 1})
    equal(await wait(client, at, "echo", {"msg": "b"}), {"msg": "b", "out": "echo:b", "n": 2})
    equal((await wait(client, None, "echo", {}))["out"], "echo:")
    failed = await wait(client, at, "failing", {}, raise_error=False)
    equal(failed, {"__error__": {"error": "ValueError", "message": "boom!"}})
    equal((await result(client.threads.get(at)))["status"], "error")
    made = await wait(client, MISSING, "echo", {"msg": "c"}, if_not_exists="create")
    equal(made["n"], 1)
    await result(client.threads.delete(MISSING))
    await refused(404, lambda: client.runs.wait(MISSING, "echo", input={}))


@case
async def streams_have_the_events_of_their_modes(client, _):
    at = await thread(client)
    found = await events(client, at, "echo", {"msg": "a"}, ["values", "updates"])
    equal(found[0][0], "metadata")
    done = {"msg": "a", "out": "echo:a", "n": 1}
    equal(found[1:4], [
        ("values", {"msg": "a"}),
        ("updates", {"echo": {"out": "echo:a", "n": 1}}),
        ("values", done),
    ])
    equal([name for name, _ in found[4:]], ["end"])
    found = await events(client, at, "slow", {"steps": 2, "delay": 0.01}, "custom")
    equal(found[1:-1], [("custom", {"progress": 0}), ("custom", {"progress": 1})])
    found = await events(client, None, "echo", {"msg": "a"}, ["tasks", "checkpoints"])
    equal([name for name, _ in found[1:-1]], ["checkpoints", "checkpoints", "tasks", "tasks", "checkpoints"])
    equal(found[4][1]["name"], "echo")
    equal(found[5][1]["values"], done)
    found = await events(client, None, "echo", {}, "debug")
    equal([data["type"] for _, data in found[1:-1]], ["checkpoint", "checkpoint", "task", "task_result", "checkpoint"])
    found = await events(client, at, "failing", {}, "values")
    equal(found[-1], ("error", {"error": "ValueError", "message": "boom!"}))


@case
async def messages_are_streamed_in_pieces_and_whole(client, _):
    question = {"messages": [{"type": "human", "content": "2+3?", "id": "q"}]}
    found = await events(client, await thread(client), "agent", question, ["messages-tuple", "values"])
    chunks = [data for name, data in found if name == "messages"]
    text = "".join(chunk["content"] for chunk, about in chunks if about["langgraph_node"] == "agent")
    equal(text, "Let me add theseThe answer is 5 as computed by the tool")
    last = [data for name, data in found if name == "values"][-1]["messages"]
    equal([message["type"] for message in last], ["human", "ai", "tool", "ai"])
    equal(last[0]["id"], "q")
    equal(last[1]["tool_calls"], [{"name": "add", "args": {"a": 2, "b": 3}, "id": "call_1", "type": "tool_call"}])
    equal((last[2]["content"], last[2]["tool_call_id"]), ("5", "call_1"))
    found = await events(client, await thread(client), "agent", question, "messages")
    whole = [data for name, data in found if name.startswith("messages/") and name != "messages/metadata"]
    equal(whole[-1][0]["content"], "The answer is 5 as computed by the tool")


@case
async def subgraphs_are_streamed_under_their_namespaces(client, _):
    at = await thread(client)
    found = await events(client, at, "parent", {"msg": "a"}, "updates", stream_subgraphs=True)
    names = [name for name, _ in found]
    assert names[2].startswith("updates|sub:"), names
    equal([name.split("|")[0] for name in names], ["metadata", "updates", "updates", "updates", "end"])
    equal(found[1][1], {"pre": {"msg": "pre-a"}})
    equal(found[2][1], {"echo": {"out": "echo:pre-a", "n": 1}})
    equal(list(found[3][1]), ["sub"])


@case
async def a_joined_stream_continues_after_an_event(client, _):
    at = await thread(client)
    modes = ["values", "updates", "custom"]
    run = await result(client.runs.create(at, "slow", input={"steps": 5, "delay": 0.05}, stream_mode=modes))
    join = lambda after: client.runs.join_stream(at, run["run_id"], stream_mode=modes, last_event_id=after)
    live = await items(join("-1"))
    equal([part.data for part in live if part.event == "updates"], UPDATES[:5])
    ids = [part.id for part in live if part.event in modes]
    equal(len(set(ids)), len(ids))
    later = await items(join("-1"))
    equal([(part.event, part.data, part.id) for part in later[1:]], [(part.event, part.data, part.id) for part in live[1:]])
    for index in range(1, len(live) - 1, 3):
        rest = [(part.event, part.id) for part in await items(join(live[index].id)) if part.event in modes]
        equal(rest, [(part.event, part.id) for part in live[index + 1:] if part.event in modes])


@case
async def a_run_is_cancelled_and_rolled_back(client, _):
    at = await thread(client)
    await wait(client, at, "slow", {"steps": 1, "delay": 0.01})
    for action, left in [("interrupt", 404), ("rollback", 404)]:
        run = await result(client.runs.create(at, "slow", input={"steps": 50, "delay": 0.2}))

        async def running():
            return (await result(client.runs.get(at, run["run_id"])))["status"] == "running"

        await until(running)
        await result(client.runs.cancel(at, run["run_id"], wait=True, action=action))
        if action == "interrupt":
            equal((await result(client.runs.get(at, run["run_id"])))["status"], "interrupted")
        else:
            await refused(404, lambda: client.runs.get(at, run["run_id"]))
        assert len((await result(client.threads.get_state(at)))["values"]["log"]) < 50, left
    equal((await result(client.threads.get(at)))["status"] != "busy", True)


@case
async def a_question_is_asked_and_answered(client, _):
    at = await thread(client)
    asked = await wait(client, at, "inter", {"q": "x"})
    question = {"question": "approve?", "q": "x"}
    equal([found["value"] for found in asked["__interrupt__"]], [question])
    held = await result(client.threads.get(at))
    equal(held["status"], "interrupted")
    equal([found["value"] for task in held["interrupts"].values() for found in task], [question])
    state = await result(client.threads.get_state(at))
    equal((state["next"], state["tasks"][0]["interrupts"][0]["value"]), (["ask"], question))
    done = await wait(client, at, "inter", command={"resume": "yes"})
    equal(done, {"q": "x", "answer": "yes", "note": "done:yes"})
    found = await events(client, await thread(client), "inter", {"q": "y"}, "updates")
    equal(found[1][1]["__interrupt__"][0]["value"], {"question": "approve?", "q": "y"})
    await refused(400, lambda: client.runs.wait(None, "inter", command={"resume": 1}))


@case
async def a_run_stops_before_nodes_and_goes_on(client, _):
    at = await thread(client)
    await wait(client, at, "parent", {"msg": "a"}, interrupt_before=["sub"])
    equal((await result(client.threads.get_state(at)))["next"], ["sub"])
    equal((await wait(client, at, "parent"))["out"], "echo:pre-a")
    equal((await wait(client, at, "parent", command={"goto": "sub", "update": {"msg": "b"}}))["out"], "echo:b")


@case
async def states_are_read_changed_and_forked(client, _):
    at = await thread(client)
    await wait(client, at, "echo", {"msg": "a"})
    await wait(client, at, "echo", {"msg": "b"})
    history = await result(client.threads.get_history(at, limit=20))
    equal(history[0]["values"]["out"], "echo:b")
    equal(len(history), 6)
    ends = [state for state in history if not state["next"]]
    equal([state["values"].get("out") for state in ends], ["echo:b", "echo:a"])
    place = {"checkpoint_id": ends[1]["checkpoint"]["checkpoint_id"], "checkpoint_ns": ""}
    equal((await result(client.threads.get_state(at, checkpoint=place)))["values"]["n"], 1)
    before = await result(client.threads.get_history(at, before=place, limit=1))
    equal(before[0]["values"].get("out"), None)
    forked = await wait(client, at, "echo", {"msg": "c"}, checkpoint=place)
    equal(forked, {"msg": "c", "out": "echo:c", "n": 2})
    await result(client.threads.update_state(at, {"n": 10}, as_node="echo"))
    state = await result(client.threads.get_state(at))
    equal((state["values"]["n"], state["metadata"]["source"]), (10, "update"))
    equal((await wait(client, at, "echo", {"msg": "d"}))["n"], 11)
    await refused(400, lambda: client.threads.update_state(at, {"n": 1}, as_node="nobody"))


@case
async def four_strategies_treat_a_busy_thread(client, _):
    for strategy in ["reject", "enqueue", "interrupt", "rollback"]:
        at = await thread(client)
        first = await result(client.runs.create(at, "slow", input={"steps": 4, "delay": 0.1}))

        async def begun():
            return (await result(client.threads.get_state(at)))["values"].get("log")

        await until(begun)
        second = lambda: client.runs.wait(
            at, "slow", input={"steps": 1, "delay": 0.01}, multitask_strategy=strategy
        )
        if strategy == "reject":
            await refused(409, second)
            continue
        log = (await result(second()))["log"]
        if strategy == "enqueue":
            equal(len(log), 5)
        elif strategy == "interrupt":
            assert 2 <= len(log) <= 4, log
            equal((await result(client.runs.get(at, first["run_id"])))["status"], "interrupted")
        else:
            equal(log, ["step0"])
            await refused(404, lambda: client.runs.get(at, first["run_id"]))


@case
async def tasks_of_a_fan_out_are_joined(client, _):
    found = await wait(client, None, "fan", {"n": 20})
    equal((found["total"], found["items"]), (20, list(range(20))))


@case
async def graphs_are_assistants(client, _):
    found = await result(client.assistants.search(graph_id="parent"))
    equal([row["graph_id"] for row in found], ["parent"])
    one = await result(client.assistants.get(found[0]["assistant_id"]))
    equal(one["name"], "parent")
    drawn = await result(client.assistants.get_graph(one["assistant_id"], xray=True))
    assert "sub:echo" in json.dumps(drawn["nodes"]), drawn
    equal((await wait(client, None, one["assistant_id"], {"msg": "a"}))["out"], "echo:pre-a")


@case
async def assistants_have_versions(client, _):
    made = await result(client.assistants.create("echo", name="one", metadata={"a": 1}))
    at = made["assistant_id"]
    equal((made["graph_id"], made["version"]), ("echo", 1))
    changed = await result(client.assistants.update(at, name="two"))
    equal((changed["name"], changed["version"], changed["metadata"]["a"]), ("two", 2, 1))
    versions = await result(client.assistants.get_versions(at))
    equal(sorted(row["version"] for row in versions), [1, 2])
    await result(client.assistants.set_latest(at, 1))
    equal((await result(client.assistants.get(at)))["name"], "one")
    equal((await wait(client, None, at, {"msg": "a"}))["out"], "echo:a")
    schemas = await result(client.assistants.get_schemas(at))
    assert {"input_schema", "output_schema", "state_schema"} <= set(schemas), schemas
    await result(client.assistants.delete(at))
    await refused(404, lambda: client.assistants.get(at))


@case
async def items_are_stored_found_and_deleted(client, _):
    space = ["users", f"u{id(client)}"]
    await result(client.store.put_item(space, key="a", value={"n": 1}))
    await result(client.store.put_item(space, key="b", value={"n": 2}))
    equal((await result(client.store.get_item(space, key="a")))["value"], {"n": 1})
    found = await result(client.store.search_items(space, filter={"n": 2}))
    equal([item["key"] for item in found["items"]], ["b"])
    spaces = await result(client.store.list_namespaces(prefix=space))
    equal(spaces["namespaces"], [space])
    await result(client.store.delete_item(space, key="a"))
    equal(await result(client.store.get_item(space, key="a")), None)


@case
async def a_run_begins_after_a_delay(client, _):
    at = await thread(client)
    run = await result(client.runs.create(at, "echo", input={"msg": "a"}, after_seconds=1))
    equal((await result(client.runs.get(at, run["run_id"])))["status"], "pending")
    equal((await result(client.runs.join(at, run["run_id"])))["out"], "echo:a")
