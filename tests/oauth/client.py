#!/usr/bin/env python3
"""The client that the MCP conformance package runs: logs in at the server with `weft mcp login`, and
calls its tools. As the person would, it logs in again when a command says so, at most twice."""

import json
import os
import sys

from user import NEEDS_LOGIN, User


def main():
    url = sys.argv[-1]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    oauth = {}
    if "client_id" in context:
        oauth = {"clientId": context["client_id"], "clientSecret": context["client_secret"]}
    if scenario == "auth/basic-cimd":
        # The address of a metadata document is the id of a client.
        oauth = {"clientId": "https://conformance-test.local/client-metadata.json"}
    user = User(url, oauth)
    logins = 0

    def log_in():
        nonlocal logins
        logins += 1
        status, said = user.log_in()
        print(said, file=sys.stderr)
        # With a new token, the server may ask for another login: for scopes, or elsewhere.
        return status == 0 or (NEEDS_LOGIN in said and logins <= 2)

    def done(*args):
        while True:
            status, said = user.weft(*args)
            print(args, status, said, file=sys.stderr)
            if NEEDS_LOGIN not in said or logins > 2:
                return status == 0, said
            if not log_in():
                return False, said

    is_done, said = done("tools", "--json")
    names = [json.loads(line)["tool"] for line in said.splitlines() if line.startswith("{")]
    for name in names if is_done else []:
        done("allow", name, "--effect", "read-only", "--shown", ".")
        is_done = done("call", name)[0] and is_done
    return 0 if is_done else 1


if __name__ == "__main__":
    sys.exit(main())
