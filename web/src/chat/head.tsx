import { useRef, useState } from "react";
import type { Thread } from "../api/types";
import { go, link } from "../shared/route";
import { agentOf, deleteThread, STATUS, statusOf, titleOf } from "../threads/data";
import type { Connection } from "./connection";

const CONNECTION: Record<Connection, string> = {
  live: "Live",
  reconnected: "Reconnected",
  cut: "Connection cut; trying again",
};

interface Props {
  thread: Thread;
  connection: Connection;
  onChange: () => void;
}

/** The title and the state of a thread. */
export function Head({ thread, connection, onChange }: Props) {
  const status = statusOf(thread);
  return (
    <header className="head">
      <a className="back" href={link({ view: "threads" })} aria-label="All threads">
        ‹
      </a>
      <div>
        <h1>{titleOf(thread)}</h1>
        <p className="facts">
          <span className="agent">{agentOf(thread)}</span>
          <span className="status" data-status={status} role="status">
            {STATUS[status]}
          </span>
          <span className="connection" data-connection={connection} role="status">
            {CONNECTION[connection]}
          </span>
        </p>
      </div>
      <Delete thread={thread} onChange={onChange} />
    </header>
  );
}

function Delete({ thread, onChange }: { thread: Thread; onChange: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [problem, setProblem] = useState<string>();
  const confirm = async () => {
    try {
      await deleteThread(thread.thread_id);
      dialog.current?.close();
      go({ view: "threads" });
      onChange();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <>
      <button className="quiet" onClick={() => dialog.current?.showModal()}>
        Delete
      </button>
      <dialog ref={dialog} aria-labelledby="delete-title">
        <h2 id="delete-title">Delete this thread?</h2>
        <p>“{titleOf(thread)}”, its messages and its checkpoints are removed for good.</p>
        {problem && (
          <p role="alert" className="problem">
            {problem}
          </p>
        )}
        <div className="actions">
          <button onClick={() => dialog.current?.close()}>Keep it</button>
          <button className="danger" onClick={confirm}>
            Delete
          </button>
        </div>
      </dialog>
    </>
  );
}
