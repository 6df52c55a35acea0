import { useEffect, useRef, useState } from "react";
import { Agents } from "../agents/agents";
import type { Assistant } from "../api/types";
import { reasonOf } from "../question/first";
import { Absent } from "../shared/absent";
import { link } from "../shared/route";
import { Offer } from "../setup/offer";
import { useAssistants } from "../threads/data";
import { InputForm } from "../graph/input-form";
import { useShape } from "../graph/shape";
import { beginRun, beginThread } from "./begin";
import { TextInput } from "./input";
import { ModelChoice } from "./model-choice";
import { drafts, NEW_CHAT } from "./texts";

/** Begins a thread with an agent. */
export function NewChat({ agent }: { agent: string | undefined }) {
  const agents = useAssistants();
  const { data: assistants } = agents;
  const [problem, setProblem] = useState<string>();
  const [model, setModel] = useState("");
  const chosen = assistants?.find(({ name, assistant_id }) => name === agent || assistant_id === agent) ?? assistants?.[0];
  const shape = useShape(chosen?.assistant_id);
  const [isWaiting, setIsWaiting] = useState(false);
  const [draft] = useState(() => drafts.get(NEW_CHAT));
  const loaded = useLater(chosen);
  const begin = async (text: string, other?: Assistant) => {
    setProblem(undefined);
    setIsWaiting(chosen === undefined);
    const agent = other ?? (await loaded());
    setIsWaiting(false);
    try {
      await beginThread({ ...agent, model: model || undefined }, text);
      return true;
    } catch (error) {
      setProblem(reasonOf(error as Error));
      return false;
    }
  };
  return (
    <section className="new" aria-labelledby="new-title">
      <a className="back" href={link({ view: "threads" })} aria-label="All threads">
        ‹
      </a>
      <h1 id="new-title">What can an agent do for you?</h1>
      {problem && (
        <p role="alert" className="problem">
          {problem}
        </p>
      )}
      {chosen && shape && !shape.takesMessages ? (
        <InputForm
          key={chosen.assistant_id}
          schema={shape.input}
          onInput={(input) => void beginRun(chosen, input).catch((error: Error) => setProblem(reasonOf(error)))}
        />
      ) : (
        <>
          <TextInput
            label="Your message"
            placeholder={`Write to ${chosen?.name ?? "an agent"}`}
            initial={draft}
            onText={async (text) => {
              const isTaken = await begin(text);
              if (isTaken) drafts.set(NEW_CHAT, "");
              return isTaken;
            }}
            onDraft={(text) => drafts.set(NEW_CHAT, text)}
            focus
          />
          <ModelChoice chosen={model} onChoose={setModel} />
        </>
      )}
      <p role="status" className="facts">
        {isWaiting && "It is sent when the agents are there."}
      </p>
      <Offer />
      {assistants ? (
        <Agents assistants={assistants} chosen={chosen} onRequest={(agent, text) => void begin(text, agent)} />
      ) : (
        <Absent of="agents" polled={agents} />
      )}
    </section>
  );
}

/** Returns a function that waits until there is a value. */
function useLater<T>(value: T | undefined): () => Promise<T> {
  const present = useRef(value);
  present.current = value;
  const waiting = useRef<((value: T) => void)[]>([]);
  useEffect(() => {
    if (value === undefined) return;
    for (const go of waiting.current.splice(0)) go(value);
  }, [value]);
  return () =>
    present.current === undefined ? new Promise((resolve) => waiting.current.push(resolve)) : Promise.resolve(present.current);
}
