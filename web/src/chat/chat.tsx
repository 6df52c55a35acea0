import { useEffect } from "react";
import { titleOf, useThread } from "../threads/data";
import { useConnection } from "./connection";
import { Conversation } from "./conversation";
import { Head } from "./head";

/** A thread: its head, and the conversation with its agent. */
export function Chat({ thread: id, onChange }: { thread: string; onChange: () => void }) {
  const { data: thread, error, refresh } = useThread(id);
  const connected = useConnection(id);
  const agent = thread?.metadata.assistant_id ?? thread?.metadata.graph_id;
  useEffect(() => {
    if (thread) document.title = `${titleOf(thread)} · Weftwork`;
    return () => void (document.title = "Weftwork");
  }, [thread]);
  if (!thread) return error ? <p className="empty problem">{error.message}</p> : <p className="empty">Loading…</p>;
  return (
    <section className="chat" aria-label={titleOf(thread)}>
      <Head thread={thread} connection={connected.connection} onChange={onChange} />
      {agent === undefined ? (
        <p className="empty">No agent has run on this thread.</p>
      ) : (
        <Conversation
          key={connected.epoch}
          place={{ agent, thread: id }}
          status={thread.status}
          connected={connected}
          onChange={() => {
            refresh();
            onChange();
          }}
        />
      )}
    </section>
  );
}
