import { useState } from "react";
import type { Assistant } from "../api/types";
import { reasonOf } from "../question/first";
import { Absent } from "../shared/absent";
import { link } from "../shared/route";
import { useAssistants } from "../threads/data";
import { InputForm } from "../graph/input-form";
import { useShape } from "../graph/shape";
import { beginRun, beginThread } from "./begin";
import { TextInput } from "./input";
import { ModelChoice } from "./model-choice";

/** Begins a thread with an agent. */
export function NewChat({ agent }: { agent: string | undefined }) {
  const agents = useAssistants();
  const { data: assistants } = agents;
  const [problem, setProblem] = useState<string>();
  const [model, setModel] = useState("");
  const chosen = assistants?.find(({ name, assistant_id }) => name === agent || assistant_id === agent) ?? assistants?.[0];
  const shape = useShape(chosen?.assistant_id);
  const begin = async (text: string) => {
    if (!chosen) return false;
    try {
      await beginThread({ ...chosen, model: model || undefined }, text);
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
          <TextInput label="Your message" placeholder={`Write to ${chosen?.name ?? "an agent"}`} onText={begin} focus />
          <ModelChoice chosen={model} onChoose={setModel} />
        </>
      )}
      {assistants ? <Agents assistants={assistants} chosen={chosen} /> : <Absent of="agents" polled={agents} />}
    </section>
  );
}

function Agents({ assistants, chosen }: { assistants: Assistant[]; chosen: Assistant | undefined }) {
  return (
    <ul className="agents" aria-label="Agents">
      {assistants.map((assistant) => (
        <li key={assistant.assistant_id}>
          <a
            href={link({ view: "new", agent: assistant.name })}
            aria-current={assistant === chosen ? "true" : undefined}
          >
            <strong>{assistant.name}</strong>
            {assistant.description && <span>{assistant.description}</span>}
          </a>
        </li>
      ))}
    </ul>
  );
}
