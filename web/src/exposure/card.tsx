import { jsonAt } from "../api/http";
import { Absent } from "../shared/absent";
import { usePolled } from "../shared/polled";
import { Rows } from "../shared/rows";
import type { AgentCard } from "./data";

/** Time after which a card is read again. */
const AGAIN_MS = 60_000;

/** The abilities of a server in words. */
const ABILITIES: Record<string, string> = {
  streaming: "streaming",
  pushNotifications: "push notifications",
  extendedAgentCard: "extended card",
};

/** The card of an agent, read as programs of other agents read it. */
export function CardPreview({ path }: { path: string }) {
  const card = usePolled(`card ${path}`, (signal) => jsonAt<AgentCard>(path, signal), AGAIN_MS);
  return (
    <section className="card-preview" aria-label="Card">
      <h3>What other agents read</h3>
      {card.data ? <Card card={card.data} /> : <Absent of="card" polled={card} />}
    </section>
  );
}

function Card({ card }: { card: AgentCard }) {
  const { name, description, version, provider, supportedInterfaces, capabilities, skills, signatures = [] } = card;
  const able = Object.entries(capabilities).filter(([, isAble]) => isAble === true);
  const bindings = supportedInterfaces.map(({ protocolBinding, protocolVersion }) => `${protocolBinding} ${protocolVersion}`);
  return (
    <>
      <Rows
        label="Card"
        rows={[
          ["Name", name],
          ["Description", description],
          ["Version", version],
          ["Provider", provider?.organization],
          ["Address", [...new Set(supportedInterfaces.map(({ url }) => url))].join(", ")],
          ["Bindings", bindings.join(", ")],
          ["Capabilities", able.map(([ability]) => ABILITIES[ability] ?? ability).join(", ") || "none"],
          ["Signature", signatures.length > 0 ? "Signed" : "Not signed"],
        ]}
      />
      <ul aria-label="Skills">
        {skills.map(({ id, name, description }) => (
          <li key={id}>
            <strong>{name}</strong> {description}
          </li>
        ))}
      </ul>
    </>
  );
}
