"""Front ends that others wrote for LangGraph's server, over its routes."""

from harness import case, node


@case
async def the_adapter_of_ag_ui_calls_tools_asks_and_goes_on_after_a_reload(_, server):
    await node("ag_ui.mjs", server.url)


@case
async def the_runtime_of_assistant_ui_calls_tools_asks_and_goes_on_after_a_reload(_, server):
    await node("assistant_ui.mjs", server.url)


@case
async def requests_of_agent_chat_ui_have_answers_that_it_reads(_, server):
    await node("agent_chat_requests.mjs", server.url)
