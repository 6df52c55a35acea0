"""The JavaScript SDK and its hooks for React."""

from harness import case, node


@case
async def the_sdk_runs_streams_asks_and_answers(_, server):
    await node("sdk.mjs", server.url)


@case
async def the_hook_of_the_sdk_goes_on_after_a_reload(_, server):
    await node("hook.mjs", server.url)


@case
async def the_hook_of_langchain_react_goes_on_after_a_reload(_, server):
    await node("hook_commands.mjs", server.url)


@case
async def threads_are_streamed_over_events_and_sockets(_, server):
    await node("thread_stream.mjs", server.url)
