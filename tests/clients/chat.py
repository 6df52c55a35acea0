"""Chats: decoders of front ends over real responses, and pages in Chromium."""

import shutil

from harness import case, node


@case
async def decoders_of_assistant_ui_and_of_the_ai_sdk_read_both_formats(_, server):
    await node("chat_decode.mjs", server.url)


@case
async def pages_stream_pause_are_loaded_again_and_answer(_, server):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium, "no Chromium; scripts/bootstrap.sh installs it"
    await node("chat_pages.mjs", server.url, chromium)
