"""A small MCP server for the guide: one tool, over standard input and output."""
import datetime
import json
import sys
import zoneinfo

TOOL = {
    "name": "get-time",
    "description": "Tells the current time in a time zone.",
    "inputSchema": {
        "type": "object",
        "properties": {"zone": {"enum": ["UTC", "Europe/Oslo"], "description": "The zone."}},
        "required": ["zone"],
    },
}


def answer(method, params):
    if method == "initialize":
        server = {"name": "clock", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        zone = zoneinfo.ZoneInfo(params["arguments"]["zone"])
        now = datetime.datetime.now(zone).isoformat(timespec="seconds")
        return {"content": [{"type": "text", "text": now}]}
    raise LookupError(method)


def serve(answer):
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = answer(message["method"], message.get("params"))
        except LookupError as problem:
            reply["error"] = {"code": -32601, "message": str(problem)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    serve(answer)
