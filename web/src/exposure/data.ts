// The protocols of other programs by which an agent is reached.
import { json } from "../api/http";
import { sendOnce } from "../api/sent";
import { usePolled, type Polled } from "../shared/polled";

/** A text to be copied. */
export interface Copied {
  name: string;
  text: string;
}

/** What people need to point a program at an agent. */
export interface Access {
  settings: Copied[];
  examples: Copied[];
  /** Path of the card by which the agent describes itself to programs. */
  card?: string;
}

/** A protocol of the server. */
export interface Protocol {
  protocol: string;
  label: string;
  about: string;
  /** Missing if the agent is not reached by the protocol. */
  access?: Access;
}

export interface Exposure {
  /** `true` if the client may change it. */
  mayChange: boolean;
  protocols: Protocol[];
}

/** Time after which it is read again: others change it, too. */
const AGAIN_MS = 5_000;

function readExposure(slug: string, signal?: AbortSignal): Promise<Exposure> {
  return json("GET /agents/{slug}/exposure", { path: { slug }, signal });
}

/** Reads the exposure of an agent. */
export function useExposure(slug: string): Polled<Exposure> {
  return usePolled(`exposure ${slug}`, (signal) => readExposure(slug, signal), AGAIN_MS);
}

/** Exposes an agent by a protocol, or no longer. Returns the exposure that the server confirms. */
export async function expose(slug: string, protocol: string, isOn: boolean): Promise<Exposure | undefined> {
  let confirmed: Exposure | undefined;
  await sendOnce({
    what: JSON.stringify(["expose", slug, protocol, isOn]),
    send: async () => {
      confirmed = await json("PUT /agents/{slug}/exposure", { path: { slug }, body: { [protocol]: isOn } });
    },
    find: async () => {
      confirmed = await readExposure(slug);
      const found = confirmed.protocols.find((one) => one.protocol === protocol);
      return (found?.access !== undefined) === isOn;
    },
  });
  return confirmed;
}

/** The card of an agent, as programs of other agents read it, as far as it is shown. */
export interface AgentCard {
  name: string;
  description: string;
  version: string;
  provider?: { organization: string };
  supportedInterfaces: { url: string; protocolBinding: string; protocolVersion: string }[];
  capabilities: Record<string, boolean | undefined>;
  skills: { id: string; name: string; description: string }[];
  /** Missing without a key of the operator. */
  signatures?: unknown[];
}
