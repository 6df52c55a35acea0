import { useEffect, useState } from "react";
import type { Thread } from "../api/types";
import { copyText } from "../shared/copy";
import { link } from "../shared/route";
import { Absent } from "../shared/absent";
import { GraphView } from "../graph/graph-view";
import { useShape } from "../graph/shape";
import { useDefined } from "../records/data";
import { RecordsPanel } from "../records/panel";
import { RunPanel } from "../run/panel";
import { useProblem, useThread, useTitle } from "../threads/data";
import { UsageContext, useThreadUsage } from "../usage/data";
import { leaveFirst } from "./begin";
import { useChatConnection } from "./connection";
import { Conversation } from "./conversation";
import { Head, type Beside } from "./head";
import { drafts } from "./texts";

/** Name under which the browser stores that the details are shown. They are closed until somebody wants them. */
const DETAILS = "details";

/** A thread: its head, the conversation with its agent or the runs of its graph, and its details. */
export function Chat({ thread: id, onChange }: { thread: string; onChange: () => void }) {
  const polled = useThread(id);
  const { data: thread, refresh } = polled;
  const connected = useChatConnection();
  const [beside, setBeside] = useState<Beside | undefined>(() => (localStorage.getItem(DETAILS) === "open" ? "details" : undefined));
  const agent = thread?.metadata.assistant_id ?? thread?.metadata.graph_id;
  // Agents with definitions make plans and deliverables.
  const isDefined = useDefined().some(({ slug }) => slug === thread?.metadata.graph_id);
  const makes = isDefined || thread?.metadata["weft:conversation"] !== undefined;
  const shown = beside === "records" && !makes ? undefined : beside;
  const shape = useShape(agent);
  const title = useTitle(thread);
  const usage = useThreadUsage(id, thread);
  useEffect(() => () => leaveFirst(id), [id]);
  useEffect(() => {
    if (title !== undefined) document.title = `${title} · Weftwork`;
    return () => void (document.title = "Weftwork");
  }, [title]);
  if (thread === null) return <NoThread thread={id} />;
  if (!thread) return <Absent of="messages" polled={polled} />;
  const changed = () => {
    refresh();
    onChange();
  };
  const toggle = (which: Beside) => {
    const next = beside === which ? undefined : which;
    localStorage.setItem(DETAILS, next === "details" ? "open" : "closed");
    setBeside(next);
  };
  return (
    <section className="chat" aria-label={title} data-run={shown !== undefined || undefined}>
      <Head thread={thread} agent={shape?.takesMessages ? agent : undefined} connection={connected.connection} onChange={changed} makes={makes} beside={shown} onBeside={toggle} />
      <Problem thread={thread} />
      {agent !== undefined && shape && (
        <div className="sides">
          <UsageContext value={usage}>
            {shape.takesMessages ? (
              <Conversation key={connected.epoch} chat={{ agent, thread: id }} thread={thread} connected={connected} onChange={changed} />
            ) : (
              <GraphView thread={thread} agent={agent} shape={shape} onChange={changed} />
            )}
            {shown === "records" && <RecordsPanel thread={thread} />}
            {shown === "details" && <RunPanel thread={thread} agent={agent} facts={connected.facts} />}
          </UsageContext>
        </div>
      )}
    </section>
  );
}

/** Says that a thread does not exist, and keeps what was written for it. */
function NoThread({ thread }: { thread: string }) {
  const draft = drafts.get(thread);
  return (
    <section className="empty" aria-labelledby="no-thread">
      <h1 id="no-thread">There is no such thread</h1>
      <p>Somebody deleted it, or the address is cut or mistyped.</p>
      {draft !== undefined && (
        <>
          <p>What you had written, and was not sent:</p>
          <blockquote>{draft}</blockquote>
        </>
      )}
      <div className="actions">
        {draft !== undefined && <button onClick={() => copyText(draft)}>Copy the text</button>}
        <a href={link({ view: "new" })}>New chat</a>
        <a href={link({ view: "inbox", tab: "open" })}>Inbox</a>
      </div>
    </section>
  );
}

/** Why a thread cannot be read; nothing if it can. */
function Problem({ thread }: { thread: Thread }) {
  const { data: problem } = useProblem(thread);
  if (problem) {
    return (
      <p className="problem refused" role="alert">
        This thread cannot be read: {problem}
      </p>
    );
  }
  const hasAgent = thread.metadata.graph_id ?? thread.metadata.assistant_id;
  return hasAgent || problem === undefined ? null : <p className="empty">No agent has run on this thread.</p>;
}
