"""Chats: decoders of front ends over real responses, pages in Chromium, and servers that are killed."""

import asyncio
import json
import shutil

import httpx

from harness import Server, case, equal, node, randoms

AGENT = "slow_desk"


@case
async def decoders_of_assistant_ui_and_of_the_ai_sdk_read_both_formats(_, server):
    await node("chat_decode.mjs", server.url)


@case
async def chats_of_vue_and_svelte_send_files_ask_and_go_on_after_a_reload(_, server):
    await node("chat_classes.mjs", server.url)


async def pages(server, *kind):
    """Opens pages of a kind: stream, call, pause, reload while the agent waits and speaks, answers."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium, "no Chromium; scripts/bootstrap.sh installs it"
    await node("chat_pages.mjs", server.url, chromium, *kind)


@case
async def pages_of_assistant_ui_read_the_ui_message_stream(_, server):
    await pages(server, "aui", "ui-message-stream")


@case
async def pages_of_assistant_ui_read_the_data_stream(_, server):
    await pages(server, "aui", "data-stream")


@case
async def pages_of_the_ai_sdk_read_the_ui_message_stream(_, server):
    await pages(server, "chat", "ui-message-stream")


def said(message):
    """The text of a stored message."""
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def lines_text(body):
    """The text that a reader of the data stream shows."""
    return "".join(json.loads(line[2:]) for line in body.splitlines() if line.startswith("0:"))


async def kill(server, number, random):
    """Kills the server while an agent speaks; returns the text that a client has after it."""
    thread = f"killed-{number}"
    body = {"threadId": thread, "messages": [{"role": "user", "content": "Where is order A1003?"}]}
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        seen = ""
        try:
            async with http.stream("POST", f"/chat/{AGENT}?protocol=data-stream", json=body) as response:
                equal(response.status_code, 200)
                async for part in response.aiter_text():
                    seen += part
                    if '\n0:"' in seen:
                        await asyncio.sleep(random.uniform(0, 0.6))
                        server.kill()
        except (httpx.RemoteProtocolError, httpx.ReadError):
            pass
        assert "\nd:" not in seen, "the response is cut"
        await asyncio.to_thread(server.start)
        response = await http.get(f"/chat/{AGENT}/{thread}/stream?protocol=data-stream")
        equal(response.status_code, 200)
        assert "\nd:" in response.text, response.text
        message = (await http.get(f"/chat/{AGENT}/{thread}")).json()[-1]
        equal(lines_text(response.text), said(message))
        equal(response.text.count('\nb:{"toolCallId"'), 1)
        assert len(said(message)) > 10, message


@case
async def a_client_of_a_killed_server_has_each_word_once_after_it(_, __):
    random, count = randoms("chat"), 4
    with Server() as server:
        for number in range(count):
            await kill(server, number, random)
    return f"{count} kills"
