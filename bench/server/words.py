"""Age of the words of a model when clients receive them, in each format.

The graph `clock` of the reference server says a word each 100 ms. A word is the time at which it is
said, so that each reader can tell its age, however the format wraps it.
"""

import asyncio
import base64
import json
import os
import re
import struct
import time
import uuid

WORDS = 50
READERS = 8
WORD = re.compile(rb"at(\d{16})")


def request(method, path, body=None, headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body is not None:
        body = json.dumps(body).encode()
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


async def ages(reader):
    """Ages in milliseconds of the words that arrive at a connection, each at its first arrival."""
    seen, rest = {}, b""
    while len(seen) < WORDS:
        data = await asyncio.wait_for(reader.read(65536), 30)
        if not data:
            raise RuntimeError(f"the stream ended after {len(seen)} of {WORDS} words: {rest[-300:]!r}")
        now, rest = time.time(), rest + data
        for word in WORD.findall(rest):
            seen.setdefault(word, now * 1000 - int(word) / 1000)
        # A word may be in two parts.
        rest = rest[-300:]
    return list(seen.values())


def question():
    return [{"role": "user", "content": str(WORDS)}]


def classic(_):
    body = {"assistant_id": "clock", "input": {"messages": question()}, "stream_mode": "messages-tuple"}
    return [request("POST", "/runs/stream", body)]


def chat(protocol):
    def open_(thread):
        body = {"threadId": thread, "messages": question()}
        return [request("POST", f"/chat/clock?protocol={protocol}", body)]

    return open_


def start(thread):
    params = {"assistant_id": "clock", "input": {"messages": question()}}
    return {"id": 1, "method": "run.start", "params": params}


def events(thread):
    stream = request("POST", f"/threads/{thread}/stream/events", {"channels": ["messages"]})
    return [stream, request("POST", f"/threads/{thread}/commands", start(thread))]


def frame(message):
    """A text frame of a client; the mask of zeros leaves the text as it is."""
    text = json.dumps(message).encode()
    return b"\x81\xfe" + struct.pack(">H", len(text)) + bytes(4) + text


def socket(thread):
    key = base64.b64encode(os.urandom(16)).decode()
    headers = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"]
    subscribe = {"id": 0, "method": "subscription.subscribe", "params": {"channels": ["messages"]}}
    opening = request("GET", f"/threads/{thread}/stream/events", headers=headers)
    return [opening, frame(subscribe) + frame(start(thread))]


FORMATS = {
    "messages-tuple": classic,
    "ui-message-stream": chat("ui-message-stream"),
    "data-stream": chat("data-stream"),
    "thread events": events,
    "websocket": socket,
}


async def one(port, format_):
    """Begins a run, and reads its words."""
    first, *then = FORMATS[format_](str(uuid.uuid4()))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(first)
    head = await reader.readuntil(b"\r\n\r\n")
    if head.split(b" ", 2)[1] not in (b"200", b"101"):
        raise RuntimeError(f"{format_}: {head + await reader.read(2000)!r}")
    command = writer
    if format_ == "thread events":
        _, command = await asyncio.open_connection("127.0.0.1", port)
    for data in then:
        command.write(data)
    found = await ages(reader)
    writer.close()
    return found


async def measure(port):
    """Median and 99th percentile of the ages of words, by format."""
    result = {}
    for format_ in FORMATS:
        found = sorted(sum(await asyncio.gather(*(one(port, format_) for _ in range(READERS))), []))
        result[format_] = {"words": len(found), "p50_ms": found[len(found) // 2], "p99_ms": found[len(found) * 99 // 100]}
    return result
