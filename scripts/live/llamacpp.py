"""Runs llama.cpp's own HTTP server on a free loopback port.

    llamacpp.py WEIGHTS.gguf NAME URL_FILE [TEMPLATE]

TEMPLATE is a file that replaces the chat template of the weights: that of SmolLM2 ignores tools.
Writes its URL to URL_FILE once it responds, and serves until it is stopped.
"""

import os
import signal
import sys

import xllamacpp

weights, name, url_file, *template = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = weights
params.model_alias = {name}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 4096
params.n_parallel = 1
params.use_jinja = True
for path in template:
    with open(path) as file:
        params.chat_template = file.read()
# A single thread: on a busy machine, two threads mostly wait for each other.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
with open(url_file + ".part", "w") as file:
    file.write(server.listening_address)
os.rename(url_file + ".part", url_file)
signal.pause()
