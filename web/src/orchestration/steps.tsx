import { useState } from "react";
import type { Thread } from "../api/types";
import { useLoaded } from "../run/data";
import type { RunFacts } from "../run/facts";
import { useStore } from "../shared/store";
import { keyOf, merged, pause, previewRollback, readSteps, resume, rollBack, STEP_STATUS, tokenOf, versionOf, type Orchestrated, type Preview, type Step } from "./data";
import { RollbackList } from "./rollback";

interface Props {
  thread: Thread;
  of: Orchestrated;
  facts: RunFacts;
  onChange: () => void;
}

/** The steps of the orchestration of a conversation with their statuses, and what a person can do with it. */
export function Steps({ thread, of, facts, onChange }: Props) {
  const live = useStore(facts);
  const { data: stored } = useLoaded(versionOf(thread, live.checkpoints), (signal) => readSteps(thread.thread_id, signal));
  const [preview, setPreview] = useState<Preview>();
  const [state, setState] = useState<{ isSent?: boolean; problem?: string }>({});
  if (!stored) return null;
  const isRunning = thread.status === "busy";
  const isPaused = tokenOf(of.conversation) !== null;
  const act = async (action: () => Promise<void>) => {
    setState({ isSent: true });
    try {
      await action();
      setState({});
      onChange();
    } catch (error) {
      setState({ problem: (error as Error).message });
    }
  };
  const confirm = async (shown: Preview) => {
    // What was refused is shown anew before it is confirmed again.
    setPreview(undefined);
    await rollBack(of, shown);
  };
  return (
    <section className="steps" aria-label="Steps">
      <ol tabIndex={0} aria-label="Steps and their statuses">
        {merged(stored, live.steps).map((step) => (
          <StepRow key={keyOf(step)} step={step} />
        ))}
      </ol>
      <div className="actions">
        <button disabled={state.isSent || !stored.isOpen || isPaused} onClick={() => void act(() => pause(of))}>
          Pause
        </button>
        <button disabled={state.isSent || !isPaused} onClick={() => void act(() => resume(of))}>
          Resume
        </button>
        <button disabled={state.isSent || isRunning || preview !== undefined} onClick={() => void act(async () => setPreview(await previewRollback(of)))}>
          Rollback
        </button>
      </div>
      {preview && <RollbackList preview={preview} isSent={state.isSent === true} onConfirm={() => void act(() => confirm(preview))} onLeave={() => setPreview(undefined)} />}
      {state.problem && (
        <p role="alert" className="problem">
          {state.problem}
        </p>
      )}
    </section>
  );
}

/** A step with its status. Items of loops and nested steps have the names of those around them. */
function StepRow({ step: { path, status, agent, failure } }: { step: Step }) {
  return (
    <li data-status={status} data-nested={path.length > 1 || path[0]?.includes(".") || undefined}>
      <span className="mark" />
      <span className="name">{path.join(" › ")}</span>
      {agent !== undefined && <span className="of">{agent}</span>}
      {failure !== undefined && <span className="why">{failure}</span>}
      <span className="state">{STEP_STATUS[status] ?? status}</span>
    </li>
  );
}
