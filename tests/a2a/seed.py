"""The five examples of the first description of definitions, against servers on this machine that stand for
those that they name.

`seed/` has the examples; what they left open, a name for a mapping and three dots, has a value. Nothing else
is changed but the hosts, by a file with the address in place of each.
"""

import http.server
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import uvicorn
from desk import WEFT, Model, free_port, serve, until
from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from play import play

SEED = Path(__file__).resolve().parent / "seed"


class Peer(http.server.BaseHTTPRequestHandler):
    """A server that answers as stripe and a partner do, and keeps what it gets."""

    received = []

    def do_GET(self):
        Peer.received.append(("GET", self.path, dict(self.headers.items()), b""))
        self.reply({"status": "ok"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Peer.received.append(("POST", self.path, dict(self.headers.items()), body))
        if self.path == "/v1/charges":
            return self.reply({"id": "ch_1", "amount": json.loads(body)["amount"]})
        request = json.loads(body)
        said = request["userMessage"]
        metadata = {"conversationId": request["conversationId"]}
        self.reply({"success": True, "mode": request["mode"], "content": f"heard: {said}", "metadata": metadata})

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def supabase():
    """An MCP server with the two tools of the example; returns its address and what ends it."""
    server = MCPServer("supabase")

    @server.tool(name="query-db", annotations=ToolAnnotations(readOnlyHint=True))
    async def query(table: str) -> str:
        """Reads a table."""
        return json.dumps([{"table": table, "rows": 2}])

    @server.tool(name="execute-sql")
    async def execute(sql: str) -> str:
        """Executes a statement."""
        return json.dumps({"executed": sql})

    port = free_port()
    app = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=app.run, daemon=True)
    thread.start()
    until(lambda: app.started)
    return f"http://127.0.0.1:{port}/mcp", app


class Seed:
    """A home with the five examples, their hosts replaced."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="seed-")
        self.home = Path(self.folder.name)
        self.model, self.peer = serve(Model), serve(Peer)
        tools, self.tools = supabase()
        peer = "http://{}:{}".format(*self.peer.server_address)
        hosts = self.home / "hosts.json"
        hosts.write_text(json.dumps({"https://api.stripe.com": peer, "https://partner.com": peer}))
        for example in sorted(SEED.glob("*.yaml")):
            text = example.read_text()
            for host, address in json.loads(hosts.read_text()).items():
                text = text.replace(host, address)
            folder = self.home / "agents" / example.stem
            folder.mkdir(parents=True)
            (folder / "agent.yaml").write_text(text)
        rules = [{"tool": "api/*", "decision": "allow"}, {"tool": "supabase/*", "decision": "allow"}]
        (self.home / "rules.json").write_text(json.dumps({"version": 1, "rules": rules}))
        entry = {"type": "http", "url": tools}
        (self.home / "mcp.json").write_text(json.dumps({"mcpServers": {"supabase": entry}}))
        model = "http://{}:{}/v1".format(*self.model.server_address)
        (self.home / "weft.toml").write_text(
            f'model = "fake:m"\nagents = "agents"\n[egress]\nallow = ["127.0.0.1"]\n'
            f'[providers.fake]\nurl = "{model}"\n'
        )
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "WEFT_CONFIG": f"{self.home}/weft.toml",
            "WEFT_STORE": f"sqlite:{self.home}/store.db", "WEFT_MCP": f"{self.home}/mcp.json",
            "WEFT_POLICY": f"{self.home}/rules.json", "AGENT_API_TOKEN": "sk-test",
        }
        for tool, effect in [("query-db", "read-only"), ("execute-sql", "state-change")]:
            self.weft("mcp", "allow", f"supabase/{tool}", "--effect", effect, "--shown", ".")

    def weft(self, *args):
        done = subprocess.run([WEFT, *args], cwd=self.home, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, f"weft {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, slug, message, *more):
        answer = json.loads(self.weft("agents", "run", slug, message, *more, "--json"))
        assert answer["success"], answer
        return answer["content"]

    def close(self):
        self.tools.should_exit = True
        for server in (self.model, self.peer):
            server.shutdown()
            server.server_close()
        self.folder.cleanup()


def the_five_examples_run():
    seed = Seed()
    try:
        seed.weft("agents", "check")
        assert seed.ask("context", "How many clubs?").split()[0] == "word0"
        call = {"tool": "supabase/query-db", "arguments": {"table": "clubs"}}
        found = seed.ask("tool", "Read.", "--payload", json.dumps(call))
        assert "clubs" in json.dumps(found), found
        assert seed.ask("api", "Charge.", "--input", '{"amount": 2000}') == {"charge": "ch_1"}
        charge = next(one for one in Peer.received if one[1] == "/v1/charges")
        assert charge[2]["authorization"] == "Bearer sk-test" and json.loads(charge[3]) == {"amount": 2000}, charge
        assert seed.ask("external", "Hello") == "heard: Hello"
        asked = [one[1] for one in Peer.received if one[1] != "/v1/charges"]
        assert asked == ["/health", "/agent-to-agent/tasks"], asked
        assert seed.ask("function", "Hello") == 5
    finally:
        seed.close()


if __name__ == "__main__":
    logging.disable(logging.INFO)
    sys.exit(play([("the_five_examples_run", the_five_examples_run)], sys.argv[1:]))
