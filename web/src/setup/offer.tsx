import { useState } from "react";
import { reasonOf } from "../question/first";
import { beginDownload, useOffer, type ModelOffer } from "./data";

/** Says that the scripted model answers, and offers the download of the embedded one. */
export function Offer() {
  const { data: offer, refresh } = useOffer();
  const [problem, setProblem] = useState<string>();
  if (!offer) return null;
  const begin = () => {
    setProblem(undefined);
    beginDownload().then(refresh, (error: Error) => setProblem(reasonOf(error)));
  };
  return (
    <section className="offer" aria-labelledby="offer-title">
      <h2 id="offer-title">No model answers yet</h2>
      <p>Answers are prepared: the scripted model follows fixed rules, so that you can try the agents, their tools and their questions.</p>
      <Facts offer={offer} />
      <Progress offer={offer} onBegin={begin} />
      {problem && (
        <p role="alert" className="problem">
          {problem}
        </p>
      )}
      <details>
        <summary>Without a network, or with another model</summary>
        <p>
          Get the file on another machine, from one of the sources above, and run <code>{offer.import}</code> here: the server then
          answers with it. A larger model is set with <code>weft dev --model</code>; <code>weft models list</code> has them.
        </p>
      </details>
    </section>
  );
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1_000_000)} MB`;
}

/** What a person wants to know before a download. */
function Facts({ offer }: { offer: ModelOffer }) {
  return (
    <dl className="members" aria-label="Embedded model">
      <div>
        <dt>Model</dt>
        <dd>{offer.label}</dd>
      </div>
      <div>
        <dt>Size</dt>
        <dd>{megabytes(offer.bytes)}</dd>
      </div>
      <div>
        <dt>Licence</dt>
        <dd>{offer.licence}</dd>
      </div>
      <div>
        <dt>Source</dt>
        <dd>
          {offer.sources.map((source, at) => (
            <span key={source}>
              {at > 0 && "; then the "}
              <Source source={source} />
            </span>
          ))}
        </dd>
      </div>
    </dl>
  );
}

/** A source: the host of an address, with the address behind it, or a name. */
function Source({ source }: { source: string }) {
  const url = URL.parse(source);
  if (!url?.host) return source;
  return (
    <a href={url.href} target="_blank" rel="noopener noreferrer" title={url.href}>
      {url.host}
    </a>
  );
}

function Progress({ offer, onBegin }: { offer: ModelOffer; onBegin: () => void }) {
  const { state, bytes } = offer;
  if (state.state === "loading") {
    return (
      <div role="status">
        {/* The package index reports no progress. */}
        <progress aria-label="Download" max={bytes} value={state.done > 0 ? state.done : undefined} />
        <p className="facts">{state.done > 0 ? `${megabytes(state.done)} of ${megabytes(bytes)}` : `Asking ${URL.parse(state.source)?.host ?? state.source}…`}</p>
      </div>
    );
  }
  if (state.state === "installing") return <p role="status">The file is there. The server checks it, and starts again with it.</p>;
  return (
    <>
      {state.state === "failed" && (
        <div role="alert" className="problem">
          <p>The download failed:</p>
          <ul>
            {state.reasons.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        </div>
      )}
      <div className="actions">
        <button className="primary" onClick={onBegin}>
          {state.state === "failed" ? "Try again" : `Download it (${megabytes(bytes)})`}
        </button>
      </div>
    </>
  );
}
