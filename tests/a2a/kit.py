"""Serves an agent that the compatibility kit of A2A tests, until it is stopped.

The kit tells agents what to do by the beginnings of message ids, which agents do not see. This program
stands before the server, and tells the tool of the agent what the id of the last message asks for. It
passes requests on as they are, but for the ids of messages: the kit sends the same ones for different
tasks, which the server takes as repetitions. `docs/a2a.md` has the commands.
"""

import contextlib
import json
import signal
import sys
import uuid

import httpx
import uvicorn
from desk import Desk, free_port
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

# Requests of the tool by the beginnings of ids; the longest one counts.
WORDS = {
    "tck-complete-task": "say Hello from TCK",
    "tck-artifact-text": "text",
    "tck-artifact-file": "file",
    "tck-artifact-file-url": "link",
    "tck-artifact-data": "data",
    "tck-input-required": "ask",
    "tck-reject-task": "fail",
    "tck-stream-001": "say Stream hello from TCK",
    "tck-stream-002": "say done",
    "tck-stream-003": "say Stream task lifecycle",
    "tck-stream-ordering-001": "say Ordered output",
    "tck-stream-artifact-text": "say Streamed text content",
    "tck-stream-artifact-file": "file",
    "tck-stream-artifact-chunked": "say chunk-1 chunk-2",
    "test-resubscribe-message-id": "wait 5",
}
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length", "content-encoding"}
last = {"id": ""}


def wording(text):
    """The request of the last message."""
    prefixes = [prefix for prefix in WORDS if last["id"].startswith(prefix)]
    return WORDS[max(prefixes, key=len)] if prefixes else text


def note(body):
    """Notes the id of the message in a body, and returns the body with an id of its own."""
    with contextlib.suppress(ValueError, AttributeError, TypeError, KeyError):
        parsed = json.loads(body)
        message = parsed.get("params", parsed)["message"]
        last["id"] = message["messageId"]
        message["messageId"] += f"-{uuid.uuid4()}"
        return json.dumps(parsed).encode()
    return body


def main():
    desk = Desk(exposed=("desk",), auth=False, wording=wording).start()
    client = httpx.AsyncClient(base_url=desk.url, timeout=None)

    async def forward(request):
        body = note(await request.body())
        path = request.scope["raw_path"].decode()
        query = request.url.query
        headers = [(name, value) for name, value in request.headers.raw if name != b"content-length"]
        target = client.build_request(
            request.method, path + (f"?{query}" if query else ""), headers=headers, content=body or None
        )
        answer = await client.send(target, stream=True)
        headers = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
        if "event-stream" in answer.headers.get("content-type", ""):
            close = BackgroundTask(answer.aclose)
            return StreamingResponse(answer.aiter_raw(), answer.status_code, headers, background=close)
        content = await answer.aread()
        await answer.aclose()
        return Response(content, answer.status_code, headers)

    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]
    app = Starlette(routes=[Route("/{path:path}", forward, methods=methods)])
    port = int(sys.argv[1]) if len(sys.argv) > 1 else free_port()
    # uvicorn repeats the signal when it has stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"http://127.0.0.1:{port}", flush=True)
    try:
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")
    finally:
        desk.close()


if __name__ == "__main__":
    main()
