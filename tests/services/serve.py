"""Serves an application that others wrote on a free port of 127.0.0.1, and prints its address.

    serve.py localstripe | httpbin | kinto FILE
"""

import sys


def serve_stripe():
    from aiohttp import web
    from localstripe import resources
    from localstripe.server import app

    # It would write its objects to a file that all users of a machine share.
    resources.Store.dump_to_disk = lambda _store: None
    web.run_app(app, host="127.0.0.1", port=0)


def serve_wsgi(app):
    from waitress.server import create_server

    server = create_server(app, host="127.0.0.1", port=0)
    print(f"Running on http://127.0.0.1:{server.effective_port}", flush=True)
    server.run()


match sys.argv[1:]:
    case ["localstripe"]:
        serve_stripe()
    case ["httpbin"]:
        from httpbin import app

        serve_wsgi(app)
    case ["kinto", file]:
        from pyramid.paster import get_app

        serve_wsgi(get_app(file))
    case other:
        sys.exit(f"unknown application {other}")
