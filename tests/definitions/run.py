#!/usr/bin/env python3
"""Plays the cases of the definitions in `agents/` on the command line and over HTTP.

    run.py [SLUG...]   all agents, or those named

The agents use published MCP servers, installed as those of `tests/mcp`, over data that this program makes:
an SQLite database, files, a Git repository, a memory; the orders are those of `examples/platform`. In
place of the APIs that they name, a service of this program answers. The model is the embedded one, whose weights
`weft models pull` installs. Expected values come from the data, from schemas, or are computed. The form of
a `cases.yaml` is described in `docs/guide/definitions.md`. Needs `weft` in WEFT_TARGET_DIR.
"""

import concurrent.futures
import contextlib
import datetime
import http.server
import importlib.util
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
AGENTS = ROOT / "agents"

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("mcp_stage", ROOT / "tests/mcp/run.py")
mcp_stage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mcp_stage)
TARGET, WEFT = mcp_stage.TARGET, mcp_stage.WEFT

SERVERS = ["calculator", "filesystem", "git", "memory", "sqlite", "time"]
READS = """
calculator/calculate filesystem/get_file_info filesystem/list_directory filesystem/read_text_file
filesystem/search_files git/git_branch git/git_log git/git_show git/git_status memory/read_graph
memory/search_nodes sqlite/describe_table sqlite/list_tables sqlite/read_query time/convert_time
time/get_current_time
""".split()
CHANGES = ["memory/add_observations", "orders/cancel_order", "orders/decline_order", "orders/place_order"]
# Numbers of published servers, and of their tools, that the agents use at least.
SERVERS_MIN = 3
TOOLS_MIN = 10
# Codes of requests that an agent refuses, for which `weft agents run` has a status of its own.
REFUSED = {"W0201", "W1012", "W1020", "W1021", "W1022", "W1023", "W1030", "W1031", "W1032", "W1033", "W1034", "W1038"}
APIS = ["https://api.frankfurter.dev", "https://api.github.com"]
RELEASES = [
    {"tag_name": f"v{number}", "draft": number == 4, "published_at": f"2026-0{number}-01T12:00:00Z"}
    for number in (4, 3, 2, 1)
]
QUESTION = "How many clubs may a player carry?"


def read_cases(text):
    """Reads the part of YAML that cases have: mappings and lists in blocks, and JSON or plain words as values."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    lines = [(len(line) - len(line.lstrip()), line.lstrip()) for line in lines]

    def scalar(text):
        try:
            return json.loads(text)
        except ValueError:
            assert text[0] not in "\"'[{&*!|>%@`", f"expected JSON or plain words, found {text}"
            return text

    def block(indent):
        if lines[0][1].startswith("- "):
            items = []
            while lines and lines[0][0] == indent and lines[0][1].startswith("- "):
                lines[0] = (indent + 2, lines[0][1][2:])
                items.append(block(indent + 2))
            return items
        members = {}
        while lines and lines[0][0] == indent and not lines[0][1].startswith("- "):
            key, separator, rest = lines.pop(0)[1].partition(":")
            assert separator and (not rest or rest.startswith(" ")), f"expected `key: value`, found `{key}`"
            assert key not in members, f"the key `{key}` stands twice"
            members[key] = scalar(rest.strip()) if rest else block(lines[0][0])
        return members

    cases = block(0)
    assert not lines, f"unexpected indentation: {lines[0][1]}"
    return cases


def make_data(work):
    """The data of the servers. The cases name its values."""
    work.mkdir()
    with contextlib.closing(sqlite3.connect(work / "test.db")) as store, store:
        store.execute("CREATE TABLE orders (customer TEXT, euros INTEGER)")
        rows = [("Ada", 25), ("Ada", 70), ("Grace", 10), ("Grace", 30)]
        store.executemany("INSERT INTO orders VALUES (?, ?)", rows)
        store.execute("CREATE TABLE supplies (reference TEXT PRIMARY KEY, boxes INTEGER NOT NULL, status TEXT NOT NULL)")
    known = [
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["wrote a program"]},
        {"type": "entity", "name": "Grace", "entityType": "person", "observations": ["wrote a compiler"]},
    ]
    (work / "memory.jsonl").write_text("\n".join(map(json.dumps, known)))

    def git(*args, day="2026-01-01"):
        moment = f"{day}T12:00:00+00:00"
        env = {
            "PATH": os.environ["PATH"], "HOME": str(work), "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com", "GIT_AUTHOR_DATE": moment,
            "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com", "GIT_COMMITTER_DATE": moment,
        }
        subprocess.run(["git", *args], cwd=work, env=env, check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    (work / ".git/info/exclude").write_text("test.db\nmemory.jsonl\n")
    (work / "notes.txt").write_text("first line\n")
    git("add", "notes.txt")
    git("commit", "-m", "Begin notes", day="2026-01-02")
    (work / "notes.txt").write_text("first line\nsecond line\n")
    git("commit", "-a", "-m", "Add a line", day="2026-01-03")


class Api(http.server.BaseHTTPRequestHandler):
    """The answers of the APIs that the agents ask. The cases name their values."""

    ISSUES = "/repos/ada/notes/issues"
    PLACES = {
        f"{ISSUES}/7": {"number": 7, "title": "The second line is missing", "state": "open"},
        f"{ISSUES}/7/comments?per_page=1": [{"user": {"login": "grace"}, "body": "It is there since January."}],
        "/v1/latest?base=EUR&symbols=USD": {"amount": 1.0, "base": "EUR", "date": "2026-01-02", "rates": {"USD": 1.0875}},
        "/repos/ada/notes/releases?per_page=100": RELEASES[:2],
        "/repos/ada/notes/releases?per_page=100&page=2": RELEASES[2:],
    }

    def do_GET(self):
        found = self.PLACES.get(self.path)
        if self.path.startswith(self.ISSUES) and self.headers["authorization"] != "Bearer token-12345":
            found = None
        body = json.dumps(found if found is not None else {"message": "Not Found"}).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        if found == RELEASES[:2]:
            self.send_header("link", f'<http://{self.headers["host"]}{self.path}&page=2>; rel="next"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        pass


def serve_apis():
    """The service; it answers until it is shut down."""
    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    return service


def copy_agents(folder, service):
    """Copies the definitions, with the address of a service in place of the APIs."""
    shutil.copytree(AGENTS, folder)
    for file in folder.glob("*/agent.yaml"):
        text = file.read_text()
        for api in APIS:
            text = text.replace(api, f"http://127.0.0.1:{service.server_port}")
        file.write_text(text)


class Stage:
    """A folder with data, the definitions, the file of the servers, and the stores."""

    def __init__(self, place, service):
        self.place = place
        copy_agents(place / "agents", service)
        (place / "weft.toml").write_text('[egress]\nallow = ["127.0.0.1"]\n')
        self.data = place / "data"
        make_data(self.data)
        servers = json.loads((ROOT / "tests/mcp/servers.json").read_text())
        servers = {name: servers[name] for name in SERVERS}
        folder = TARGET / "mcp-stage"
        folder.mkdir(parents=True, exist_ok=True)
        mcp_stage.install(folder, servers)
        entries = {}
        for name, server in servers.items():
            entry = mcp_stage.program(folder, name, server, self.data)
            entries[name] = {member: entry[member] for member in ("command", "args", "env", "cwd")}
        shop = [str(ROOT / "examples/platform/shop_server.py"), "orders", str(self.data / "test.db")]
        entries["orders"] = {"command": sys.executable, "args": shop}
        (place / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
        kept = ["PATH", "LANG", "WEFT_MODEL_FILE", "WEFT_MODEL_URL"]
        self.env = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(place),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "WEFT_MCP": str(place / "mcp.json"),
            "WEFT_AGENTS": str(place / "agents"),
            "AGENT_ISSUE_READER_TOKEN": "token-12345",
            "WEFT_MODEL": "local",
            "WEFT_STORE": "memory",
        }

    def weft(self, *args, store="memory", check=True):
        env = {**self.env, "WEFT_STORE": store}
        command = [WEFT, *map(str, args)]
        done = subprocess.run(command, cwd=self.place, env=env, capture_output=True, text=True, timeout=300)
        assert not check or done.returncode == 0, f"weft {' '.join(command[1:4])}: {done.stdout}{done.stderr}"
        return done

    def allow_tools(self):
        self.weft("mcp", "allow", *READS, "--effect", "read-only", "--shown", ".")
        self.weft("mcp", "allow", *CHANGES, "--effect", "state-change", "--shown", ".")

    def ask_by_command(self, slug, request):
        """The answer of `weft agents run`. Each agent has a store of its own."""
        args = ["agents", "run", slug, request.get("userMessage", ""), "--json"]
        for member, flag in [("mode", "--mode"), ("conversationId", "--conversation")]:
            args += [flag, request[member]] if member in request else []
        for member in ["input", "payload"]:
            args += [f"--{member}", json.dumps(request[member])] if member in request else []
        done = self.weft(*args, store=f"sqlite:{self.place / slug}.db", check=False)
        assert done.stdout, f"no answer: {done.stderr[-500:]}"
        answer = json.loads(done.stdout)
        waits = answer["metadata"].get("status") == "input_required"
        failed = 2 if answer["metadata"].get("code") in REFUSED else 1
        status = 3 if waits else 0 if answer["success"] else failed
        assert done.returncode == status, f"status {done.returncode}, expected {status}: {answer}"
        return answer


class Server:
    """`weft serve` with the agents."""

    def __init__(self, stage):
        env = {**stage.env, "WEFT_STORE": f"sqlite:{stage.place / 'serve.db'}"}
        command = [WEFT, "serve", "--no-auth", "--listen", "127.0.0.1:0"]
        self.log = (stage.place / "serve.log").open("w")
        self.process = subprocess.Popen(
            command, cwd=stage.place, env=env, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        prefix = "listening on "
        line = next((line for line in self.process.stdout if line.startswith(prefix)), None)
        assert line, f"weft serve ended: {(stage.place / 'serve.log').read_text()[-500:]}"
        self.url = line.removeprefix(prefix).strip()

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()
        self.log.close()

    def send(self, path, body):
        """The text of a response, whatever its status."""
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=300) as response:
                return response.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def ask(self, slug, request):
        return json.loads(self.send(f"/agents/{slug}/tasks", request))


def missing_members(expected, found, path="answer"):
    """The places at which a value lacks what is expected. Lists have their length; objects may have more."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            yield from missing_members(value, found.get(key), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for at, (value, other) in enumerate(zip(expected, found)):
            yield from missing_members(value, other, f"{path}[{at}]")
    elif expected != found:
        yield f"{path} is {json.dumps(found)}, expected {json.dumps(expected)}"


def problems_of(expect, answer):
    """The differences between an answer and what a case expects."""
    unknown = expect.keys() - {"code", "content", "contains", "matches", "members", "tools"}
    assert expect and not unknown, f"expected values of a case, found {sorted(unknown) or 'none'}"
    metadata = answer.get("metadata", {})
    content = answer.get("content")
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    if answer["success"] != ("code" not in expect):
        yield f"success is {answer['success']}: {metadata.get('code')} {answer.get('error')}"
        return
    if "code" in expect and metadata.get("code") != expect["code"]:
        yield f"the code is {metadata.get('code')}, expected {expect['code']}"
    if "content" in expect:
        yield from missing_members({"is": expect["content"]}, {"is": content}, "content")
    contained = expect.get("contains", [])
    for part in [contained] if isinstance(contained, str) else contained:
        if part not in text:
            yield f"{part!r} is not in {text[:500]}"
    if "matches" in expect and not re.search(expect["matches"], text):
        yield f"{expect['matches']!r} does not match {text[:500]}"
    if "members" in expect:
        yield from missing_members(expect["members"], answer)
    if "tools" in expect:
        # The results are the content.
        made = [{"tool": call["tool"], "arguments": call["arguments"]} for call in metadata.get("tools", [])]
        if made != expect["tools"]:
            yield f"the tools are {json.dumps(made)}"


def placed(value, data):
    """A value of a case with the folder of the data, and with the day at which it is played."""
    days = [datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=more) for more in (0, 1)]
    today = "|".join(day.strftime("%Y-%m-%d") for day in days)
    text = json.dumps(value).replace("WORK", str(data)).replace("TODAY", f"(?:{today})")
    return json.loads(text)


def play(slug, way, ask, cases):
    """Plays the cases of an agent in order; returns the results and the tools that were called."""
    results, tools = [], set()
    for case in cases:
        begin = time.monotonic()
        try:
            answer = ask(slug, case["request"])
            problems = list(problems_of(case["expect"], answer))
            tools |= {call["tool"] for call in answer.get("metadata", {}).get("tools", [])}
        except (AssertionError, KeyError, OSError, ValueError, subprocess.TimeoutExpired):
            problems = [traceback.format_exc()]
        results.append((f"{slug} {way}: {case['name']}", problems, time.monotonic() - begin))
    return results, tools


def agents_are_listed(stage, server, slugs):
    found = json.loads(server.send("/assistants/search", {"limit": 1000}))
    found = {assistant["graph_id"] for assistant in found}
    assert found.issuperset(slugs), f"missing: {sorted(set(slugs) - found)}; found: {sorted(found)}"
    listed = stage.weft("agents", "list").stdout
    missing = [slug for slug in slugs if f"agents:{slug} " not in listed]
    assert not missing, f"`weft agents list` lacks {missing}"


def a_client_of_langgraph_asks_the_embedded_model(_stage, server, _slugs):
    thread = json.loads(server.send("/threads", {}))["thread_id"]
    asked = {"assistant_id": "golf-rules", "input": {"messages": [{"role": "user", "content": QUESTION}]}}
    state = json.loads(server.send(f"/threads/{thread}/runs/wait", asked))
    answer = state["messages"][-1]
    assert answer["type"] == "ai" and "14" in json.dumps(answer["content"]), state


def a_client_of_the_ai_sdk_asks_the_embedded_model(_stage, server, _slugs):
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": QUESTION}]}
    body = {"id": "golf-chat", "trigger": "submit-message", "messages": [message]}
    events = server.send("/chat/golf-rules", body)
    lines = [line.removeprefix("data: ") for line in events.splitlines() if line.startswith("data: {")]
    deltas = [event.get("delta", "") for event in map(json.loads, lines) if event.get("type") == "text-delta"]
    assert "14" in "".join(deltas), events


def a_call_that_a_person_confirms_is_made_once(stage, _server, _slugs):
    arguments = {"observations": [{"entityName": "Ada", "contents": ["likes tea"]}]}
    payload = {"tool": "memory/add_observations", "arguments": arguments}
    waiting = stage.ask_by_command("memory-keeper", {"payload": payload})
    store = f"sqlite:{stage.place / 'memory-keeper'}.db"
    stage.weft("threads", "resume", waiting["metadata"]["thread"], "--approve", store=store)
    again = stage.weft("threads", "resume", waiting["metadata"]["thread"], "--approve", store=store, check=False)
    assert again.returncode != 0, again.stdout
    found = stage.ask_by_command("memory-keeper", {"payload": {"tool": "memory/read_graph"}})
    known = {entity["name"]: entity["observations"] for entity in found["content"]["entities"]}
    assert known["Ada"] == ["wrote a program", "likes tea"], found


def the_schema_for_editors_is_the_one_of_the_program(stage, _server, _slugs):
    schema = stage.weft("schema", "agent").stdout
    fix = "run: weft schema agent > agents/agent.schema.json"
    assert schema == (AGENTS / "agent.schema.json").read_text(), fix


def definitions_are_checked(stage, _server, slugs):
    checked = stage.weft("agents", "check", AGENTS).stdout
    agents = [line for line in checked.splitlines() if not line.startswith(" ")]
    assert len(agents) == len(slugs), checked


# Actions on a record, in this order, with what they need. Version 4 has the changes of 2 and 3.
ACTIONS = [
    {"action": "create", "title": "A note", "content": "# Ruling\n\none\ntwo\nthree\n"},
    {"action": "edit", "version": 1, "content": "# Ruling\n\n1\ntwo\nthree\n"},
    {"action": "set_current", "version": 1},
    {"action": "edit", "version": 1, "content": "# Ruling\n\none\ntwo\n3\n"},
    {"action": "merge_versions", "version": 2, "otherVersion": 3},
    {"action": "copy_version", "version": 1},
    {"action": "set_current", "version": 4},
    {"action": "delete_version", "version": 3},
    {"action": "edit", "version": 1, "content": "late"},
    {"action": "set_current", "version": 3},
    {"action": "read"},
    {"action": "list"},
    {"action": "delete"},
    {"action": "read"},
]


def without_names(value, names):
    """A value in which ids, times and other marks of one record have the same names in each place."""
    if isinstance(value, dict):
        left_out = {"at", "run", "unique", "conversationId", "thread", "agent", "agentType", "version"}
        kept = {key: item for key, item in value.items() if not (key in left_out and isinstance(item, (str, int)))}
        return {key: without_names(item, names) for key, item in kept.items()}
    if isinstance(value, list):
        return [without_names(item, names) for item in value]
    if isinstance(value, str):
        for name in names:
            value = value.replace(name, "ID")
    return value


def each_action_has_the_same_effect_through_mode_route_and_command(stage, server, _slugs):
    def by_mode(mode, member, payload, conversation):
        request = {"mode": mode, "conversationId": conversation, "payload": payload}
        return json.loads(server.send("/agents/golf-rules/tasks", request))

    def by_route(mode, member, payload, conversation):
        path = "/plans" if mode == "plan" else "/deliverables"
        return json.loads(server.send(path, {"conversationId": conversation, **payload}))

    def by_command(mode, member, payload, conversation):
        return stage.ask_by_command("golf-rules", {"mode": mode, "conversationId": conversation, "payload": payload})

    for mode, member in [("plan", "planId"), ("build", "deliverableId")]:
        histories = []
        for way in [by_mode, by_route, by_command]:
            conversation = f"{way.__name__}-{mode}"
            # A record that is made without an agent has the form of the agent of its conversation.
            first = {"action": "create", "content": "# Ruling\n"}
            begin = by_command if way is by_command else by_mode
            other = begin(mode, member, first, conversation)["content"]["id"]
            answers, record = [], None
            for action in ACTIONS:
                named = {} if record is None or action["action"] == "list" else {member: record}
                answer = way(mode, member, {**action, **named}, conversation)
                if record is None:
                    record = answer["content"]["id"]
                answers.append(without_names(answer, [record, other, conversation]))
            histories.append(answers)
        for number, action in enumerate(ACTIONS):
            of_mode, of_route, of_command = (history[number] for history in histories)
            assert of_mode.get("content") == of_route.get("content") == of_command.get("content"), [action, of_mode, of_route, of_command]
            assert of_mode["success"] == of_route["success"] == of_command["success"], [action, of_mode, of_route, of_command]
            assert of_mode.get("error") == of_route.get("error") == of_command.get("error"), [action, of_mode, of_route, of_command]
        succeeded = [answer["success"] for answer in histories[0]]
        assert succeeded == [True] * 8 + [False, False, True, True, True, False], list(zip(ACTIONS, histories[0]))


CHECKS = [
    definitions_are_checked,
    the_schema_for_editors_is_the_one_of_the_program,
    agents_are_listed,
    a_client_of_langgraph_asks_the_embedded_model,
    a_client_of_the_ai_sdk_asks_the_embedded_model,
    a_call_that_a_person_confirms_is_made_once,
    each_action_has_the_same_effect_through_mode_route_and_command,
]


def run_check(check, *given):
    begin = time.monotonic()
    try:
        check(*given)
        problems = []
    except Exception:
        problems = [traceback.format_exc()]
    return check.__name__, problems, time.monotonic() - begin


def main():
    if not WEFT.exists():
        print(f"no program {WEFT}; build it: cargo build -p weftwork-cli --bin weft")
        return 2
    all_slugs = sorted(path.parent.name for path in AGENTS.glob("*/agent.yaml"))
    slugs = [slug for slug in all_slugs if not sys.argv[1:] or slug in sys.argv[1:]]
    results, tools = [], set()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as end:
        service = serve_apis()
        end.callback(service.shutdown)
        stage = Stage(Path(folder).resolve(), service)
        stage.allow_tools()
        server = Server(stage)
        end.callback(server.close)
        cases = {slug: placed(read_cases((AGENTS / slug / "cases.yaml").read_text()), stage.data) for slug in slugs}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ways = {"by command": stage.ask_by_command, "over HTTP": server.ask}
            played = [
                pool.submit(play, slug, way, ask, cases[slug]) for slug in slugs for way, ask in ways.items()
            ]
            for of_agent, called in (one.result() for one in played):
                results += of_agent
                tools |= called
        results += [run_check(check, stage, server, all_slugs) for check in CHECKS if not sys.argv[1:]]
        if any(problems for _, problems, _ in results):
            shutil.copy(stage.place / "serve.log", TARGET / "definitions-serve.log")
    servers = {tool.split("/")[0] for tool in tools}
    count = f"{len(tools)} tools of {len(servers)} servers"
    if not sys.argv[1:]:
        is_enough = len(tools) >= TOOLS_MIN and len(servers) >= SERVERS_MIN
        results.append((f"the_agents_use_{TOOLS_MIN}_tools_of_{SERVERS_MIN}_servers", [] if is_enough else [count], 0))
    failed = [name for name, problems, _ in results if problems]
    for name, problems, seconds in results:
        print(f"        {'FAIL' if problems else 'PASS'} [{seconds:8.3f}s] {name}")
        if problems:
            print(f"definitions '{name}' panicked at:", *problems, sep="\n  ")
    print(f"{len(slugs)} agents called {count}: {', '.join(sorted(tools))}")
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(results) - len(failed)} passed; {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
