import { useState, type FormEvent, type KeyboardEvent } from "react";
import type { Thread } from "../api/types";
import { Menu } from "../shared/menu";
import { go, link } from "../shared/route";
import { toast } from "../shared/toast";
import { agentOf, copyThread, renameThread, setModel, statusOf, statusWordsOf, titleOf } from "../threads/data";
import { deleteWithUndo } from "../threads/deleted";
import type { ChatConnection } from "./connection";
import { exportThread } from "./export";
import { ModelChoice } from "./model-choice";

const CONNECTION: Record<ChatConnection, string> = {
  live: "Live",
  reconnected: "Reconnected",
  cut: "Offline",
};

interface Props {
  thread: Thread;
  agent: string | undefined;
  connection: ChatConnection;
  onChange: () => void;
  /** `true` if the agent makes plans and deliverables. */
  makes: boolean;
  /** What is shown beside the chat. */
  beside: Beside | undefined;
  onBeside: (which: Beside) => void;
}

/** The graph and the checkpoints, or what was made. */
export type Beside = "details" | "records";

/** The title and the state of a thread. */
export function Head({ thread, agent, connection, onChange, makes, beside, onBeside }: Props) {
  const [isRenamed, setIsRenamed] = useState(false);
  const status = statusOf(thread);
  const choose = (model: string) =>
    void setModel(thread.thread_id, model).then(onChange, (error: Error) => toast({ text: error.message }));
  return (
    <header className="head" data-home=".menu summary">
      <a className="back" href={link({ view: "threads" })} aria-label="All threads">
        ‹
      </a>
      <div>
        {isRenamed ? (
          <Rename thread={thread} onChange={onChange} onEnd={() => setIsRenamed(false)} />
        ) : (
          <h1>{titleOf(thread)}</h1>
        )}
        <p className="facts">
          <span className="agent">{agentOf(thread)}</span>
          <ModelChoice chosen={thread.metadata.model ?? ""} onChoose={choose} />
          <span className="status" data-status={status} role="status">
            {statusWordsOf(thread)}
          </span>
          <span className="connection" data-connection={connection} role="status">
            {CONNECTION[connection]}
          </span>
        </p>
      </div>
      {agent !== undefined && (
        <button className="export" onClick={() => exportThread(thread, agent, "md").catch((error: Error) => toast({ text: error.message }))}>
          Export
        </button>
      )}
      {makes && (
        <button aria-pressed={beside === "records"} onClick={() => onBeside("records")}>
          Deliverables
        </button>
      )}
      <button aria-pressed={beside === "details"} onClick={() => onBeside("details")}>
        Details
      </button>
      <ThreadActions thread={thread} agent={agent} onRename={() => setIsRenamed(true)} onChange={onChange} />
    </header>
  );
}

interface ActionsProps {
  thread: Thread;
  agent: string | undefined;
  onRename: () => void;
  onChange: () => void;
}

function ThreadActions({ thread, agent, onRename, onChange }: ActionsProps) {
  const report = (error: Error) => toast({ text: error.message });
  const copy = () =>
    copyThread(thread, "copy").then((id) => {
      go({ view: "thread", thread: id });
      onChange();
    }, report);
  const remove = () => {
    deleteWithUndo(thread);
    go({ view: "threads" });
  };
  return (
    <Menu label="Thread">
      <button onClick={onRename}>Rename</button>
      <button onClick={copy}>Copy the thread</button>
      {agent !== undefined && (
        <>
          <button onClick={() => exportThread(thread, agent, "md").catch(report)}>Export as Markdown</button>
          <button onClick={() => exportThread(thread, agent, "json").catch(report)}>Export as JSON</button>
        </>
      )}
      <button className="danger" onClick={remove}>
        Delete
      </button>
    </Menu>
  );
}

function Rename({ thread, onChange, onEnd }: { thread: Thread; onChange: () => void; onEnd: () => void }) {
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const title = String(new FormData(event.currentTarget).get("title")).trim();
    try {
      if (title !== "") await renameThread(thread.thread_id, title);
      onChange();
      onEnd();
    } catch (error) {
      toast({ text: (error as Error).message });
    }
  };
  const onKeyDown = (event: KeyboardEvent) => event.key === "Escape" && onEnd();
  return (
    <form className="rename" onSubmit={submit} onKeyDown={onKeyDown}>
      <input name="title" aria-label="Title" defaultValue={titleOf(thread)} maxLength={200} autoFocus onFocus={(event) => event.target.select()} />
      <button className="primary">Save</button>
    </form>
  );
}
