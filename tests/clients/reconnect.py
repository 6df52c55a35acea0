"""Readers that leave a text at many points, come back later, and have the message, whole and once."""

import asyncio
import json

import httpx
from langgraph_sdk import get_client, get_sync_client

from harness import FULL, Proxy, case, equal, items, node, until

AGENT = "slow_desk"
QUESTION = "Where is order A1003?"
POINTS = [0.1 * point for point in range(24)]
DELAYS = [0, 0.3, 2]


def is_end(event):
    """True for the last event of a run in the stream of its thread."""
    return '"method":"lifecycle"' in event["data"] and '"event":"completed"' in event["data"]


async def events(response, seconds=None):
    """Server-sent events of a response until its end or that of the run, or for some seconds."""
    found, event = [], {}

    async def read():
        nonlocal event
        async for line in response.aiter_lines():
            if not line:
                if event.get("data"):
                    found.append(event)
                    if is_end(event):
                        return
                event = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                event[name] = value

    try:
        await asyncio.wait_for(read(), seconds)
    except TimeoutError:
        pass
    return found


async def twice(http, delay, seconds, request):
    """Reads a stream for some seconds, leaves, and reads the rest of it after a pause."""
    method, path, more = request(None)
    async with http.stream(method, path, **more) as response:
        before = await events(response, seconds)
    if any(map(is_end, before)):
        return before, []
    await asyncio.sleep(delay)
    # Events without an id leave the last one as it is.
    method, path, more = request(next((event for event in reversed(before) if "id" in event), None))
    async with http.stream(method, path, **more) as response:
        if response.status_code == 204:
            return before, None
        equal(response.status_code, 200)
        return before, await events(response)


def run_stream(run, mode):
    """Requests for the stream of a run, after the last event that a reader has."""

    def request(last):
        after = {"last-event-id": last["id"] if last else "0-0"}
        return "GET", f"{run}/stream", {"params": {"stream_mode": mode}, "headers": after}

    return request


def appended(tape):
    """The texts of `messages-tuple`: chunks are appended, and so is a message that comes whole."""
    texts = {}
    for event in tape:
        if event["event"] == "messages":
            message = json.loads(event["data"])[0]
            if message["type"] in ("AIMessageChunk", "ai"):
                texts[message["id"]] = texts.get(message["id"], "") + message["content"]
    return texts


def replaced(tape):
    """The texts of `messages`: each event has all of its message so far, never less than the one before."""
    texts = {}
    for event in tape:
        if event["event"].startswith("messages/") and event["event"] != "messages/metadata":
            for message in json.loads(event["data"]):
                if message["type"] in ("AIMessageChunk", "ai"):
                    before = texts.get(message["id"], "")
                    assert message["content"].startswith(before), (before, message["content"])
                    texts[message["id"]] = message["content"]
    return texts


def of_thread(tape):
    """The texts of a thread's events, each event counted once by its id. The end of a block has all of its text."""
    known, current, texts = set(), None, {}
    for event in map(lambda event: json.loads(event["data"]), tape):
        data = event["params"]["data"]
        if event["method"] != "messages" or event["event_id"] in known:
            continue
        known.add(event["event_id"])
        text = (data.get("content") or data.get("delta") or {}).get("text", "")
        if data["event"] == "message-start":
            current = data["id"]
            texts[current] = ""
        elif data["event"] == "content-block-finish":
            assert text.startswith(texts[current]), (texts[current], text)
            texts[current] = text
        elif data["event"] in ("content-block-start", "content-block-delta"):
            texts[current] += text
    return texts


def of_chat(tape):
    """The text that a front end shows of the parts of one response."""
    parts = [json.loads(event["data"]) for event in tape if event["data"].startswith("{")]
    return "".join(part["delta"] for part in parts if part["type"] == "text-delta")


async def ended(client, thread):
    """The last message of a thread once its run has ended."""

    async def idle():
        return (await client.threads.get(thread))["status"] == "idle"

    await until(idle)
    return (await client.threads.get_state(thread))["values"]["messages"][-1]


@case
async def a_text_is_whole_wherever_its_reader_left(_, server):
    client = get_client(url=server.url)
    thread = (await client.threads.create())["thread_id"]
    message = {"messages": [{"role": "user", "content": QUESTION}]}
    chat = {"threadId": f"chat-{thread}", **message}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.url, timeout=30, limits=limits) as http:
        run = (await client.runs.create(thread, AGENT, input=message))["run_id"]
        path = f"/threads/{thread}/runs/{run}"
        speaks = asyncio.ensure_future(http.post(f"/chat/{AGENT}", json=chat))

        async def begun():
            async with http.stream("GET", f"/chat/{AGENT}/chat-{thread}/stream") as response:
                return response.status_code == 200

        await until(begun)

        def thread_stream(last):
            body = {"channels": ["messages", "lifecycle"]}
            if last:
                body["since"] = json.loads(last["data"])["seq"]
            return "POST", f"/threads/{thread}/stream/events", {"json": body}

        def chat_stream(_):
            return "GET", f"/chat/{AGENT}/chat-{thread}/stream", {}

        requests = {
            "messages-tuple": run_stream(path, "messages-tuple"),
            "messages": run_stream(path, "messages"),
            "thread": thread_stream,
            "chat": chat_stream,
        }
        cells = [(kind, delay, point) for kind in requests for delay in DELAYS for point in POINTS]
        tapes = await asyncio.gather(*(twice(http, delay, point, requests[kind]) for kind, delay, point in cells))
        said = await ended(client, thread)
        shown = of_chat([{"data": line[6:]} for line in (await speaks).text.splitlines() if line.startswith("data: ")])
        equal(shown, said["content"])
        reads = {"messages-tuple": appended, "messages": replaced, "thread": of_thread}
        for (kind, delay, point), (before, after) in zip(cells, tapes):
            where = f"{kind}, left after {point:.1f} s, back after {delay} s"
            if kind == "chat":
                # A chat reads the message from its beginning, and from the thread once it is over.
                equal((where, shown if after is None else of_chat(after)), (where, shown))
            else:
                texts = reads[kind](before + after)
                equal((where, texts.get(said["id"])), (where, said["content"]))
    return f"{len(cells)} readers"


# Modes of a run, and the name of their events where it is another one. The words of `messages-tuple` are cut
# elsewhere in each stream, so that the texts are compared.
MODES = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug"]
RUNS = 50 if FULL else 6


async def streamed(kind, url, thread, graph, value):
    """The events that an SDK gives its program for a run."""
    if kind == "js":
        lines = await node("stream.mjs", url, thread, graph, json.dumps(value), json.dumps(MODES))
        return [tuple(json.loads(line)) for line in lines if line.startswith("[")]
    client = get_client(url=url) if kind == "async" else get_sync_client(url=url)
    options = {"input": value, "stream_mode": MODES, "stream_resumable": True}
    parts = await items(client.runs.stream(thread, graph, **options))
    return [(part.event, part.data) for part in parts if part.event != "metadata"]


def by_mode(found):
    """Events by their names in order, and the texts of messages by their ids."""
    names = sorted({name for name, _ in found} - {"messages", "end"})
    modes = {name: [data for event, data in found if event == name] for name in names}
    tape = [{"event": name, "data": json.dumps(data)} for name, data in found]
    return {**modes, "messages": appended(tape)}


@case
async def sdks_have_every_event_once_through_connections_that_are_cut(_, server):
    graphs = {
        "slow": {"steps": 10, "delay": 0.5},
        "slow_desk": {"messages": [{"role": "user", "content": QUESTION}]},
    }
    direct = get_client(url=server.url)

    async def one(number, cut):
        kind, graph = ["async", "sync", "js"][number % 3], list(graphs)[number // 3 % 2]
        thread = (await direct.threads.create())["thread_id"]
        found = by_mode(await streamed(kind, cut.url, thread, graph, graphs[graph]))
        run = (await direct.runs.list(thread))[0]["run_id"]
        whole = direct.runs.join_stream(thread, run, stream_mode=MODES, last_event_id="0-0")
        whole = by_mode([(part.event, part.data) async for part in whole if part.event != "metadata"])
        equal((number, kind, found), (number, kind, whole))
        assert len(whole["values"]) > 3, whole["values"]

    # The desk speaks for two seconds, so that its connections are cut within words.
    async with Proxy(server.address, 2 if FULL else 0.8) as proxy:
        for begin in range(0, RUNS, 17):
            await asyncio.gather(*(one(number, proxy) for number in range(begin, min(begin + 17, RUNS))))
        assert proxy.cuts >= RUNS // 2, proxy.cuts
    return f"{RUNS} runs, {proxy.cuts} cuts"
