import { titleOf } from "./panel";
import { useRecords, type Ask, type Defined, type Made, type Mode } from "./data";

const WORDS: Record<Mode, string> = { converse: "Converse", plan: "Plan", build: "Build" };

interface Props {
  agent: Defined;
  ask: Ask | undefined;
  onAsk: (ask: Ask | undefined) => void;
  /** What exists in the conversation. */
  records?: Made[];
}

/** What an agent with a definition is asked for: an answer, a plan, a deliverable, or a further version of one. */
export function ModeChoice({ agent: { slug, modes }, ask, onAsk, records = [] }: Props) {
  const [usual] = modes;
  const asks = modes.filter((mode) => mode !== usual).map((mode): Ask => ({ slug, mode }));
  const further = records
    .filter(({ kind }) => modes.includes(modeOf(kind)))
    .map((made): Ask => ({ slug, mode: modeOf(made.kind), of: made }));
  const all = [...asks, ...further];
  if (usual === undefined || all.length === 0) return null;
  return (
    <div className="modes">
      <select aria-label="Ask for" value={ask ? keyOf(ask) : ""} onChange={(event) => onAsk(all.find((one) => keyOf(one) === event.target.value))}>
        <option value="">{WORDS[usual]}</option>
        {asks.map((one) => (
          <option key={keyOf(one)} value={keyOf(one)}>
            {WORDS[one.mode]}
          </option>
        ))}
        {further.map((one) => (
          <option key={keyOf(one)} value={keyOf(one)}>
            {`${WORDS[one.mode]} a version of “${titleOf(records.find(({ id }) => id === one.of?.id)!)}”`}
          </option>
        ))}
      </select>
    </div>
  );
}

/** The same in a conversation, with what was made there. */
export function ModeOfConversation({ conversation, ...props }: Omit<Props, "records"> & { conversation: string }) {
  const { data } = useRecords(conversation);
  return <ModeChoice {...props} records={data} />;
}

function modeOf(kind: Made["kind"]): Mode {
  return kind === "plan" ? "plan" : "build";
}

function keyOf({ mode, of }: Ask): string {
  return [mode, of?.id].filter(Boolean).join(" ");
}
