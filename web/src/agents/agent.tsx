import { useEffect } from "react";
import { HttpError, json } from "../api/http";
import { ExposureSection } from "../exposure/exposure";
import type { Defined } from "../records/data";
import { Absent } from "../shared/absent";
import { Explained } from "../shared/explained";
import { usePolled, type Polled } from "../shared/polled";
import { link } from "../shared/route";
import { Rows } from "../shared/rows";

/** Time after which an agent is read again. */
const AGAIN_MS = 30_000;

/** Reads an agent with a definition; `null` if there is none. */
function useAgent(slug: string): Polled<Defined | null> {
  const read = async (signal: AbortSignal) => {
    try {
      return await json<Defined>("GET /agents/{slug}", { path: { slug }, signal });
    } catch (error) {
      if (error instanceof HttpError && error.status === 404) return null;
      throw error;
    }
  };
  return usePolled(`agent ${slug}`, read, AGAIN_MS);
}

/** An agent with a definition: what it is, and how other programs reach it. */
export function AgentView({ slug }: { slug: string }) {
  const agent = useAgent(slug);
  const { data } = agent;
  const name = data?.name ?? slug;
  useEffect(() => void (document.title = `${name} · Weftwork`), [name]);
  return (
    <section className="agent-view" aria-labelledby="agent-title">
      <header className="head">
        <a className="back" href={link({ view: "threads" })} aria-label="All threads">
          ‹
        </a>
        <div>
          <h1 id="agent-title">{name}</h1>
          {data && <p className="facts">{data.slug}</p>}
        </div>
      </header>
      <div className="report">
        {data === undefined && <Absent of="agent" polled={agent} />}
        {data === null && <p className="empty">There is no agent “{slug}” with a definition here.</p>}
        {data && (
          <>
            <About agent={data} />
            <ExposureSection slug={slug} />
          </>
        )}
      </div>
    </section>
  );
}

function About({ agent }: { agent: Defined }) {
  const { slug, description, type, modes, version, semver, organization, problem } = agent;
  return (
    <>
      {problem && (
        <p className="problem" role="alert">
          The agent cannot be asked here: <Explained text={problem} />
        </p>
      )}
      {description && <p>{description}</p>}
      <Rows
        label={`About ${slug}`}
        rows={[
          ["Type", type],
          ["Modes", modes.join(", ")],
          ["Version", semver ? `${semver} (${version})` : version],
          ["Organisation", organization],
        ]}
      />
      <div className="actions">
        <a href={link({ view: "new", agent: slug })}>New chat</a>
      </div>
    </>
  );
}
