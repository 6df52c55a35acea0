"""The Python SDK of A2A against agents that are exposed by it."""

import asyncio
import logging
import os
import sys
import uuid

import httpx
import jwt
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError
from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
from desk import TOKEN, Desk, Model, Webhook, until
from google.protobuf.json_format import MessageToDict
from play import play

BINDINGS = ["JSONRPC", "HTTP+JSON"]
KILLS = 10


def said(text, **more):
    return Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **more)


def texts(task):
    return ["".join(part.text for part in artifact.parts) for artifact in task.artifacts]


async def refused(request, otherwise):
    """Expects that the server refuses a request."""
    try:
        await request
    except (A2AClientError, A2AError):
        return
    raise AssertionError(otherwise)


class Client:
    """A client of an agent by one binding."""

    def __init__(self, desk, slug, binding, streaming=True):
        self.base, self.binding, self.streaming = f"{desk.url}/a2a/{slug}", binding, streaming

    async def __aenter__(self):
        headers = {"authorization": f"Bearer {TOKEN}"}
        self.http = httpx.AsyncClient(headers=headers, timeout=60)
        card = await A2ACardResolver(self.http, self.base).get_agent_card()
        config = ClientConfig(
            httpx_client=self.http, streaming=self.streaming, supported_protocol_bindings=[self.binding]
        )
        self.sdk = ClientFactory(config).create(card)
        return self

    async def __aexit__(self, *_):
        await self.http.aclose()

    async def events(self, message, **configuration):
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))
        return [event async for event in self.sdk.send_message(request)]

    async def send(self, message, **configuration):
        """Sends a message, and returns the task that follows from it."""
        events = await self.events(message, **configuration)
        first = next(event.task for event in events if event.HasField("task"))
        return await self.sdk.get_task(GetTaskRequest(id=first.id))


async def a_task_is_sent_streamed_and_read(desk, binding):
    async with Client(desk, "talk", binding, streaming=False) as client:
        task = await client.send(said("Hello"))
        assert task.status.state == TaskState.TASK_STATE_COMPLETED, task
        whole = " ".join(f"word{number}" for number in range(10))
        assert texts(task)[0].split() == whole.split(), task
    async with Client(desk, "talk", binding) as client:
        events = await client.events(said("slowly"))
        assert events[0].HasField("task")
        chunks = [event.artifact_update for event in events if event.HasField("artifact_update")]
        assert len(chunks) > 2, events
        assert "".join(chunk.artifact.parts[0].text for chunk in chunks).split() == whole.split(), chunks
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, events[-1]


async def answers_are_texts_data_and_files(desk, binding):
    async with Client(desk, "desk", binding, streaming=False) as client:
        parts = {}
        for word in ["text", "data", "file", "link"]:
            task = await client.send(said(word))
            assert task.status.state == TaskState.TASK_STATE_COMPLETED, task
            parts[word] = task.artifacts[0].parts[0]
        assert parts["text"].text == "Generated text content", parts
        assert MessageToDict(parts["data"].data) == {"key": "value", "count": 42}, parts
        assert (parts["file"].raw, parts["file"].filename) == (b"file content", "output.txt"), parts
        assert parts["link"].url == "https://example.com/output.txt", parts
        failed = await client.send(said("fail"))
        assert failed.status.state == TaskState.TASK_STATE_FAILED, failed
        assert "rejected" in failed.status.message.parts[0].text, failed


async def a_question_is_answered_by_the_next_message(desk, binding):
    async with Client(desk, "desk", binding) as client:
        task = await client.send(said("ask"))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, task
        assert "Which colour?" in task.status.message.parts[0].text, task
        done = await client.send(said("green", task_id=task.id, context_id=task.context_id))
        assert done.id == task.id
        assert done.status.state == TaskState.TASK_STATE_COMPLETED, done
        assert texts(done) == ["green"], done
        await refused(client.send(said("red", task_id=task.id)), "a task that has ended took a message")
        # Some clients name the context of a question, and not its task.
        task = await client.send(said("ask"))
        done = await client.send(said("blue", context_id=task.context_id))
        assert (done.id, texts(done)) == (task.id, ["blue"]), done


async def a_task_is_cancelled(desk, binding):
    async with Client(desk, "desk", binding, streaming=False) as client:
        waiting = await client.send(said("ask"))
        working = await client.send(said("wait 30"), return_immediately=True)
        for task in [waiting, working]:
            canceled = await client.sdk.cancel_task(CancelTaskRequest(id=task.id))
            assert canceled.status.state == TaskState.TASK_STATE_CANCELED, canceled


async def tasks_are_listed(desk, binding):
    async with Client(desk, "desk", binding, streaming=False) as client:
        before = await client.sdk.list_tasks(ListTasksRequest(page_size=1))
        task = await client.send(said("text"))
        page = await client.sdk.list_tasks(ListTasksRequest(page_size=1, include_artifacts=True))
        assert page.total_size == before.total_size + 1
        assert page.tasks[0].id == task.id
        assert texts(page.tasks[0]) == ["Generated text content"], page
        request = ListTasksRequest(context_id=task.context_id, status=TaskState.TASK_STATE_COMPLETED)
        assert [found.id for found in (await client.sdk.list_tasks(request)).tasks] == [task.id]


async def updates_are_pushed(desk, binding):
    async with Client(desk, "desk", binding, streaming=False) as client:
        Webhook.received.clear()
        config = TaskPushNotificationConfig(url=desk.hook, token="a-token")
        task = await client.send(said("ask"), task_push_notification_config=config)
        request = TaskPushNotificationConfig(task_id=task.id, id="second", url=desk.hook)
        made = await client.sdk.create_task_push_notification_config(request)
        assert (made.id, made.token) == ("second", ""), made
        request = GetTaskPushNotificationConfigRequest(task_id=task.id, id="second")
        assert (await client.sdk.get_task_push_notification_config(request)).url == desk.hook
        await client.send(said("green", task_id=task.id))

        def states():
            updates = [body.get("statusUpdate", {}) for _, body in Webhook.received]
            return [update.get("status", {}).get("state") for update in updates]

        await asyncio.to_thread(until, lambda: states().count("TASK_STATE_COMPLETED") == 2)
        assert "TASK_STATE_INPUT_REQUIRED" in states(), states()
        headers, _ = Webhook.received[0]
        assert headers["x-a2a-notification-token"] == "a-token", headers
        request = TaskPushNotificationConfig(task_id=task.id, url="http://10.0.0.1/hook")
        made = client.sdk.create_task_push_notification_config(request)
        await refused(made, "a private address was taken")


async def cards_are_signed_and_extended(desk, binding):
    async with Client(desk, "desk", binding) as client:
        keys = (await client.http.get(f"{desk.url}/.well-known/agent-card-keys.json")).json()["keys"]
        keys = {key["kid"]: jwt.PyJWK(key) for key in keys}
        verify = create_signature_verifier(lambda kid, _: keys[kid], ["EdDSA"])
        resolver = A2ACardResolver(client.http, client.base)
        card = await resolver.get_agent_card(signature_verifier=verify)
        assert card.supported_interfaces[0].url == f"{desk.url}/a2a/desk"
        extended = await client.sdk.get_extended_agent_card(GetExtendedAgentCardRequest())
        verify(extended)
        extended.name = "another"
        try:
            verify(extended)
        except SignatureVerificationError:
            return
        raise AssertionError("a changed card was verified")


async def a_killed_server_continues_the_stream(desk, binding):
    """A client streams, the server is killed, and the client subscribes to the server that follows."""
    for _ in range(KILLS):
        calls = Model.calls
        task = None
        async with Client(desk, "talk", binding) as client:
            request = SendMessageRequest(message=said("slowly"))
            try:
                async for event in client.sdk.send_message(request):
                    if event.HasField("task"):
                        task = event.task
                    if event.HasField("artifact_update"):
                        desk.kill()
            except Exception:
                pass
        assert task is not None
        desk.start()
        async with Client(desk, "talk", binding) as client:
            shown, state = {}, None
            async for event in client.sdk.subscribe(SubscribeToTaskRequest(id=task.id)):
                if event.HasField("artifact_update"):
                    update = event.artifact_update
                    text = update.artifact.parts[0].text
                    before = shown.get(update.artifact.artifact_id, "") if update.append else ""
                    shown[update.artifact.artifact_id] = before + text
                if event.HasField("status_update"):
                    state = event.status_update.status.state
            assert state == TaskState.TASK_STATE_COMPLETED, state
            whole = await client.sdk.get_task(GetTaskRequest(id=task.id))
            assert texts(whole) == list(shown.values()), (whole, shown)
            assert len(whole.artifacts) == 1, whole
            assert whole.artifacts[0].parts[0].text.split() == [f"word{n}" for n in range(10)], whole
        assert Model.calls == calls + 2, "the cut answer is asked for once more"


async def the_javascript_sdk_sends_streams_answers_and_cancels(desk, _):
    folder = os.environ["WEFT_A2A_NODE"]
    command = ["node", f"{folder}/sdk.mjs", desk.url, TOKEN]
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def the_printed_program_runs(desk, _):
    printed = desk.weft("agents", "expose", "talk", "--a2a", "--url", desk.url)
    program = f"TOKEN = {TOKEN!r}\n{printed[printed.index('import asyncio'):]}"
    command = [sys.executable, "-c", program]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert b"TASK_STATE_COMPLETED" in output, output.decode()


CASES = [
    a_task_is_sent_streamed_and_read, answers_are_texts_data_and_files,
    a_question_is_answered_by_the_next_message, a_task_is_cancelled, tasks_are_listed,
    updates_are_pushed, cards_are_signed_and_extended, a_killed_server_continues_the_stream,
    the_javascript_sdk_sends_streams_answers_and_cancels, the_printed_program_runs,
]


def main(words):
    # The SDK logs each request.
    logging.disable(logging.INFO)
    desk = Desk().start()

    def named(case, binding):
        run = lambda: asyncio.run(asyncio.wait_for(case(desk, binding), 300))
        return f"{case.__name__} {binding}", run

    try:
        # The JavaScript program tries both bindings itself.
        alone = (the_javascript_sdk_sends_streams_answers_and_cancels, the_printed_program_runs)
        bindings = lambda case: BINDINGS[:1] if case in alone else BINDINGS
        return play([named(case, binding) for case in CASES for binding in bindings(case)], words)
    finally:
        desk.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
