"""Agents that are exposed by MCP: their tool, their model, and `weft serve`."""

import contextlib
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
WEFT = Path(os.environ.get("WEFT_TARGET_DIR", TARGET)) / "debug" / "weft"
TOKEN = "a-token-of-the-operator"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
FILE = "VGhpcyBpcyBhbiBlbWJlZGRlZCByZXNvdXJjZSBjb250ZW50Lg=="


def media(kind, data, name=""):
    return {"type": "media", "media_type": kind, "url": f"data:{kind};base64,{data}", "name": name}


def ask(*forms):
    """Code that asks by forms, one after the other, and returns the answers."""
    code = f"const got = []; for (const form of {json.dumps(forms)})"
    code += ' got.push(await ctx.tools("desk/ask", { form }));'
    return code + " return { result: `User response: ${JSON.stringify(got)}` };"


def value(content):
    return f"return {{ result: {json.dumps(content)} }};"


# The code of function agents, by their slugs. Those of `test-` have the names of the tools that the
# conformance package calls, with hyphens.
CODE = {
    "asker": ask("colour"),
    "plain": ask("colour"),
    "test-simple-text": value("This is a simple text response for testing."),
    "test-image-content": value(media("image/png", PIXEL)),
    "test-audio-content": value(media("audio/wav", SOUND)),
    "test-embedded-resource": value(media("text/plain", FILE, "note.txt")),
    "test-multiple-content-types": value([
        {"type": "text", "text": "Multiple content types test:"},
        media("image/png", PIXEL),
        media("application/json", "eyJ0ZXN0IjoiZGF0YSJ9"),
    ]),
    "test-error-handling": 'throw new Error("This tool intentionally returns an error for testing");',
    "test-tool-with-progress": 'await ctx.tools("desk/say", { text: "a" }); return { result: "done" };',
    "test-elicitation": ask("user"),
    "test-elicitation-sep1034-defaults": ask("defaults"),
    "test-elicitation-sep1330-enums": ask("choices"),
    "test-input-required-result-elicitation": ask("name"),
    "test-input-required-result-multi-round": ask("name", "color"),
    "test-input-required-result-request-state": ask("ok"),
    "test-input-required-result-tampered-state": ask("ok"),
    "test-streaming-elicitation": ask("colour"),
    "test-logging-tool": value("done"),
}
TALK = "weft: 1\ntype: context\nagent_card: {description: Talks}\ncontext: Answer in short words.\n"


def definition(slug):
    if slug == "talk":
        return TALK
    # Without a declared input, a call has a message.
    declared = "" if slug == "plain" else "input_schema: {type: object}\n"
    return (
        "weft: 1\ntype: function\n"
        f"agent_card: {{name: {slug}, description: Does what its name says}}\n"
        f"tools: [desk/ask, desk/say]\n{declared}"
        "deliverable: {format: json, type: report}\n"
        "transport: {kind: function, function: {timeout_ms: 20000, grants: [tools]}}\n"
    )


def free_port():
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Model(http.server.BaseHTTPRequestHandler):
    """A model in the form of OpenAI's API, which says ten words."""

    calls = 0

    def do_POST(self):
        Model.calls += 1
        self.rfile.read(int(self.headers["content-length"]))
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
            chunk({}, "stop")
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, *_):
        pass


class World:
    """`weft serve` with agents that are exposed by MCP."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mcp-server-")
        self.home = Path(self.folder.name)
        self.model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        threading.Thread(target=self.model.serve_forever, daemon=True).start()
        for slug in ["talk", *CODE]:
            folder = self.home / "agents" / slug
            folder.mkdir(parents=True)
            (folder / "agent.yaml").write_text(definition(slug))
            if slug in CODE:
                code = f"async function handler(input, ctx) {{ {CODE[slug]} }}\n"
                (folder / "function.js").write_text(code)
        desk = {"command": sys.executable, "args": [str(Path(__file__).parent / "desk.py")]}
        (self.home / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": desk}}))
        model = "http://{}:{}/v1".format(*self.model.server_address)
        (self.home / "weft.toml").write_text(
            f'model = "fake:m"\nagents = "agents"\n[providers.fake]\nurl = "{model}"\n'
        )
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "WEFT_CONFIG": f"{self.home}/weft.toml",
            "WEFT_STORE": f"sqlite:{self.home}/store.db", "WEFT_MCP": f"{self.home}/mcp.json",
        }
        self.weft("mcp", "allow", "desk/ask", "desk/say", "--effect", "read-only", "--shown", ".")
        self.address = f"127.0.0.1:{free_port()}"
        self.printed = {}
        for slug in ["talk", *CODE]:
            self.printed[slug] = self.weft("agents", "expose", slug, "--mcp", "--url", self.url)
        self.process = None

    def weft(self, *args):
        done = subprocess.run([WEFT, *args], cwd=self.home, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, f"weft {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout

    @property
    def url(self):
        return f"http://{self.address}"

    def start(self, *auth):
        command = [WEFT, "serve", "--listen", self.address, *(auth or ["--token", TOKEN])]
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
        self.model.shutdown()
        self.model.server_close()
        if os.environ.get("WEFT_KEEP"):
            print((self.home / "log").read_text(), file=sys.stderr)
        self.folder.cleanup()


def entries(printed):
    """The entries of a file of servers that a command has printed."""
    found, rest = [], printed
    while (start := rest.find("\n{")) >= 0:
        value, end = json.JSONDecoder().raw_decode(rest[start + 1 :])
        found.append(value["mcpServers"]["weft"])
        rest = rest[start + 1 + end :]
    return found
