import { useEffect, useRef, useState } from "react";
import { Agents } from "../agents/agents";
import { reasonOf } from "../question/first";
import { useDefined, type Ask } from "../records/data";
import { ModeChoice } from "../records/mode";
import { Absent } from "../shared/absent";
import { link } from "../shared/route";
import { toast } from "../shared/toast";
import { Offer } from "../setup/offer";
import { useAssistants } from "../threads/data";
import { InputForm } from "../graph/input-form";
import { useShape } from "../graph/shape";
import { beginBeside, beginRun, beginThread } from "./begin";
import type { Said } from "./files";
import { TextInput } from "./input";
import { ModelChoice } from "./model-choice";
import { drafts, NEW_CHAT, unsentFiles } from "./texts";
import { agentOf, awaitAgent, hasWaiting, isDraftOf, isNamed, isWaiting, useWaiting } from "./waiting";

/** Number of views of new chats that are open: a thread that begins is opened in place of one. */
let open = 0;

/** Begins a thread with an agent. */
export function NewChat({ agent }: { agent: string | undefined }) {
  const agents = useAssistants();
  const { data: assistants } = agents;
  const [problem, setProblem] = useState<string>();
  const [model, setModel] = useState("");
  const [chosenAsk, setAsk] = useState<Ask>();
  const chosen = assistants && agentOf(assistants, agent);
  const allDefined = useDefined();
  const defined = allDefined.find(({ slug }) => slug === chosen?.graph_id);
  // What another agent was asked for before is nothing for this one.
  const ask = chosenAsk?.slug === defined?.slug ? chosenAsk : undefined;
  const shape = useShape(chosen?.assistant_id);
  const waiting = useWaiting();
  const [draft] = useState(draftOf);
  const [files] = useState(() => unsentFiles.get(NEW_CHAT));
  const isOpen = useRef(true);
  useEffect(() => {
    open += 1;
    isOpen.current = true;
    return () => {
      open -= 1;
      isOpen.current = false;
    };
  }, []);
  const begin = async (said: Said, other = chosen, asked?: Ask) => {
    setProblem(undefined);
    try {
      const found = other ?? (await awaitAgent(agent, said.text));
      const chosenAgent = { ...found, model: model || undefined };
      if (open > 0) await beginThread(chosenAgent, said, asked);
      else toast({ text: `“${await beginBeside(chosenAgent, said, asked)}” is sent.` });
      return true;
    } catch (error) {
      const reason = reasonOf(error as Error);
      if (open === 0) toast({ text: reason });
      // The view that had the text may be closed.
      drafts.set(NEW_CHAT, drafts.get(NEW_CHAT) ?? said.text);
      setProblem(reason);
      return false;
    }
  };
  return (
    <section className="new" aria-labelledby="new-title">
      <a className="back" href={link({ view: "threads" })} aria-label="All threads">
        ‹
      </a>
      <h1 id="new-title">What can an agent do for you?</h1>
      {chosen && agent !== undefined && !isNamed(chosen, agent) && (
        <p role="alert" className="problem">
          There is no agent “{agent}” here. “{chosen.name}” is chosen in its place.
        </p>
      )}
      {problem && (
        <p role="alert" className="problem">
          {problem}
        </p>
      )}
      {chosen && shape && !shape.takesMessages ? (
        <InputForm
          key={chosen.assistant_id}
          schema={shape.input}
          onInput={(input) => {
            setProblem(undefined);
            return beginRun(chosen, input).catch((error: Error) => setProblem(reasonOf(error)));
          }}
        />
      ) : (
        <>
          <TextInput
            label="Your message"
            placeholder={`Write to ${chosen?.name ?? "an agent"}`}
            initial={draft}
            initialFiles={files}
            onSaid={async (said) => {
              // Files go with their message, and are not those of another view that is opened meanwhile.
              const sent = unsentFiles.get(NEW_CHAT) ?? [];
              unsentFiles.delete(NEW_CHAT);
              const isTaken = await begin(said, chosen, ask);
              if (isTaken && isDraftOf(said.text, drafts.get(NEW_CHAT) ?? "")) drafts.set(NEW_CHAT, "");
              if (!isTaken && !unsentFiles.get(NEW_CHAT)?.length) unsentFiles.set(NEW_CHAT, sent);
              return isTaken;
            }}
            onDraft={(text, files) => {
              if (!isOpen.current) return;
              unsentFiles.set(NEW_CHAT, files);
              // A text that waits is the draft until it is sent.
              if (text !== "" || !hasWaiting()) drafts.set(NEW_CHAT, text);
            }}
            focus
          >
            {defined && <ModeChoice agent={defined} ask={ask} onAsk={setAsk} />}
          </TextInput>
          <ModelChoice chosen={model} onChoose={setModel} />
        </>
      )}
      <p role="status" className="facts">
        {waiting.length > 0 && `${waiting.length > 1 ? "They are" : "It is"} sent when the agents are there.`}
      </p>
      <Offer />
      {assistants ? (
        <Agents
          assistants={assistants}
          chosen={chosen}
          defined={allDefined}
          onRequest={(agent, text) => void begin({ text, images: [] }, agent)}
        />
      ) : (
        <Absent of="agents" polled={agents} />
      )}
    </section>
  );
}

/** Returns the text that was typed; nothing if it was sent, and waits for the agents. */
function draftOf(): string | undefined {
  const draft = drafts.get(NEW_CHAT);
  return draft !== undefined && isWaiting(draft) ? undefined : draft;
}
