"""The world of agents that are exposed by A2A: their tool, their model, a webhook, and `weft serve`."""

import asyncio
import base64
import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
WEFT = Path(os.environ.get("WEFT_TARGET_DIR", TARGET)) / "debug" / "weft"
TOKEN = "a-token-of-the-operator"
# A key of Ed25519 that is used nowhere else.
KEY = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
"""
HANDLER = """
async function handler(input, ctx) {
  const shown = await ctx.tools("desk/act", { text: input.message });
  const value = JSON.parse(typeof shown === "string" ? shown : shown.result);
  if (value.error) throw new Error(value.error);
  return { result: value.result };
}
"""
DEFINITIONS = {
    "desk": "weft: 1\ntype: function\nagent_card: {description: Does as it is told}\ntools: [desk/act]\n"
    "deliverable: {format: json, type: report}\n"
    "transport: {kind: function, function: {timeout_ms: 20000, grants: [tools]}}\n",
    "talk": "weft: 1\ntype: context\nagent_card: {description: Talks}\ncontext: Answer in short words.\n",
    "hidden": "weft: 1\ntype: context\n",
}
TEXT_FILE = base64.b64encode(b"file content").decode()
# Answers by the first word of a request.
RESULTS = {
    "text": "Generated text content",
    "data": {"key": "value", "count": 42},
    "file": {
        "type": "media", "media_type": "text/plain", "name": "output.txt",
        "url": f"data:text/plain;base64,{TEXT_FILE}",
    },
    "link": {
        "type": "media", "media_type": "text/plain", "name": "output.txt",
        "url": "https://example.com/output.txt",
    },
}


def free_port():
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(ready, seconds=60):
    """Waits until a condition holds, and returns its value."""
    end = time.monotonic() + seconds
    while not (value := ready()):
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.02)
    return value


class Reply(BaseModel):
    reply: str


class Tool:
    """An MCP server whose tool does as a text says. `wording` may give it another text."""

    def __init__(self, wording=lambda text: text):
        server = MCPServer("desk")

        @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
        async def act(text: str, ctx: Context) -> str | InputRequiredResult:
            """Does as a text says."""
            replied = (ctx.input_responses or {}).get("colour")
            text = f"say {replied.content['reply']}" if replied else text
            words = wording(text).split()
            if words[:1] == ["ask"]:
                asked = ElicitRequestFormParams(message="Which colour?", requested_schema=Reply.model_json_schema())
                return InputRequiredResult(input_requests={"colour": ElicitRequest(params=asked)})
            if words[:1] == ["wait"]:
                await asyncio.sleep(float(words[1]))
            if words[:1] == ["fail"]:
                return json.dumps({"error": "rejected"})
            if words[:1] == ["say"]:
                return json.dumps({"result": " ".join(words[1:])})
            return json.dumps({"result": RESULTS.get(words[0] if words else "", "Hello from TCK")})

        self.port = free_port()
        app = server.streamable_http_app()
        config = uvicorn.Config(app, host="127.0.0.1", port=self.port, log_level="error")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        until(lambda: self.server.started)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"

    def close(self):
        self.server.should_exit = True
        self.thread.join()


class Model(http.server.BaseHTTPRequestHandler):
    """A model in the form of OpenAI's API, which says ten words, slowly if it is asked to."""

    calls = 0

    def do_POST(self):
        Model.calls += 1
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = [message["content"] for message in body["messages"] if message["role"] == "user"][-1]
        said = said if isinstance(said, str) else "".join(part.get("text", "") for part in said)
        pause = 0.2 if said.startswith("slowly") else 0
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()

        def chunk(delta, end=None):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            data = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()

        with contextlib.suppress(OSError):
            for number in range(10):
                chunk({"role": "assistant", "content": f"word{number} "})
                time.sleep(pause)
            chunk({}, "stop")
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, *_):
        pass


class Webhook(http.server.BaseHTTPRequestHandler):
    """A webhook that keeps what it gets."""

    received = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Webhook.received.append((dict(self.headers.items()), json.loads(body)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Desk:
    """`weft serve` with agents that are exposed by A2A."""

    def __init__(self, exposed=("desk", "talk"), auth=True, wording=lambda text: text):
        self.folder = tempfile.TemporaryDirectory(prefix="a2a-")
        self.home = Path(self.folder.name)
        self.tool, self.model, self.webhook = Tool(wording), serve(Model), serve(Webhook)
        for slug, text in DEFINITIONS.items():
            (self.home / "agents" / slug).mkdir(parents=True)
            (self.home / "agents" / slug / "agent.yaml").write_text(text)
        (self.home / "agents/desk/function.js").write_text(HANDLER)
        (self.home / "key.pem").write_text(KEY)
        entry = {"type": "http", "url": self.tool.url}
        (self.home / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": entry}}))
        model = "http://{}:{}/v1".format(*self.model.server_address)
        (self.home / "weft.toml").write_text(
            f'model = "fake:m"\nagents = "agents"\n[providers.fake]\nurl = "{model}"\n'
        )
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "WEFT_CONFIG": f"{self.home}/weft.toml",
            "WEFT_STORE": f"sqlite:{self.home}/store.db", "WEFT_MCP": f"{self.home}/mcp.json",
        }
        self.weft("mcp", "allow", "desk/act", "--effect", "read-only", "--shown", ".")
        for slug in exposed:
            self.weft("agents", "expose", slug, "--a2a")
        self.auth = ["--token", TOKEN] if auth else ["--no-auth"]
        self.address = f"127.0.0.1:{free_port()}"
        self.process = None

    def weft(self, *args):
        done = subprocess.run([WEFT, *args], cwd=self.home, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, f"weft {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout

    @property
    def url(self):
        return f"http://{self.address}"

    @property
    def hook(self):
        return "http://{}:{}/hook".format(*self.webhook.server_address)

    def start(self, *more):
        command = [
            WEFT, "serve", "--listen", self.address, *self.auth, "--a2a-key", self.home / "key.pem",
            "--a2a-webhook-host", "127.0.0.1", "--a2a-webhook-host", "localhost", *more,
        ]
        log = open(self.home / "log", "ab")
        self.process = subprocess.Popen(
            command, cwd=self.home, env=self.env, stdout=subprocess.PIPE, stderr=log, text=True
        )
        log.close()
        line = next((line for line in self.process.stdout if line.startswith("listening on ")), None)
        assert line, f"weft serve did not start: {(self.home / 'log').read_text()}"
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        self.tool.close()
        for server in (self.model, self.webhook):
            server.shutdown()
            server.server_close()
        if os.environ.get("WEFT_KEEP"):
            print((self.home / "log").read_text(), file=sys.stderr)
        self.folder.cleanup()
