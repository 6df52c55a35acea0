"""An MCP server for tests: records each call in the file `calls`, and asks within `guests`."""
import json
import sys

NAMES = ["pay", "note", "mark", "guests"]
QUESTION = {
    "mode": "form",
    "message": "How many guests?",
    "requestedSchema": {"type": "object", "properties": {"guests": {"type": "integer"}}},
}
waiting = None


def write(message):
    print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)


def say(call, text):
    write({"id": call, "result": {"content": [{"type": "text", "text": text}]}})


def answer(method, params):
    if method == "initialize":
        version = params["protocolVersion"]
        server = {"name": "count", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        schema = {"type": "object", "properties": {}}
        return {"tools": [{"name": name, "inputSchema": schema} for name in NAMES]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "tools/call":
        name = message["params"]["name"]
        with open("calls", "a") as calls:
            calls.write(name + "\n")
        if name == "guests":
            waiting = number
            write({"id": "question", "method": "elicitation/create", "params": QUESTION})
        else:
            say(number, "done " + name)
    elif method is None and number == "question":
        say(waiting, json.dumps(message["result"]))
    elif number is not None:
        result = answer(method, message.get("params"))
        error = {"code": -32601, "message": "no such method"}
        write({"id": number} | ({"error": error} if result is None else {"result": result}))
