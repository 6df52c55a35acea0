import type { Assistant } from "../api/types";
import type { Defined } from "../records/data";
import { link } from "../shared/route";
import { abilitiesOf, useTools } from "./abilities";

interface Props {
  assistants: Assistant[];
  chosen: Assistant | undefined;
  /** Agents with definitions. */
  defined: Defined[];
  /** Begins a thread with an agent. */
  onRequest: (agent: Assistant, text: string) => void;
}

/** The agents: what each is for, what one can ask, what it may do and what it asks for. */
export function Agents({ assistants, chosen, defined, onRequest }: Props) {
  return (
    <ul className="agents" aria-label="Agents">
      {assistants.map((assistant) => (
        <Agent
          key={assistant.assistant_id}
          assistant={assistant}
          isChosen={assistant === chosen}
          slug={defined.find(({ slug }) => slug === assistant.graph_id)?.slug}
          onRequest={(text) => onRequest(assistant, text)}
        />
      ))}
    </ul>
  );
}

interface AgentProps {
  assistant: Assistant;
  isChosen: boolean;
  /** Slug of an agent with a definition. */
  slug: string | undefined;
  onRequest: (text: string) => void;
}

function Agent({ assistant, isChosen, slug, onRequest }: AgentProps) {
  const tools = useTools(assistant.assistant_id);
  const abilities = tools ? abilitiesOf(tools) : [];
  return (
    <li aria-label={assistant.name}>
      <a href={link({ view: "new", agent: assistant.name })} aria-current={isChosen ? "true" : undefined}>
        <strong>{assistant.name}</strong>
        {assistant.description && <span>{assistant.description}</span>}
      </a>
      {tools && tools.requests.length > 0 && (
        <div className="actions" role="group" aria-label={`Examples for ${assistant.name}`}>
          {tools.requests.map((request) => (
            <button key={request} onClick={() => onRequest(request)}>
              {request}
            </button>
          ))}
        </div>
      )}
      {abilities.length > 0 && (
        <dl aria-label={`Abilities of ${assistant.name}`}>
          {abilities.map(({ about, tools }) => (
            <div key={about}>
              <dt>{about}</dt>
              <dd>{tools}</dd>
            </div>
          ))}
        </dl>
      )}
      {slug !== undefined && (
        <a className="reach" href={link({ view: "agent", slug })}>
          Reach {slug} from outside
        </a>
      )}
    </li>
  );
}
