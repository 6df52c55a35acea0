import { useEffect } from "react";
import { request } from "../api/http";
import { MarkdownText } from "../chat/markdown";
import { useLoaded } from "../run/data";
import { link } from "../shared/route";

/** The page of an error code: what happened, why, and what to do. */
export function ErrorPage({ code }: { code: string }) {
  const { data, problem } = useLoaded(code, async (signal) => (await request("GET /errors/{code}", { path: { code }, signal })).text());
  useEffect(() => void (document.title = `${code} · Weftwork`), [code]);
  return (
    <article className="error-page" aria-label={`Error ${code}`}>
      <a className="back" href={link({ view: "threads" })} aria-label="All threads">
        ‹
      </a>
      {problem && (
        <p role="alert" className="problem">
          The page of {code} cannot be read. {problem}
        </p>
      )}
      {data !== undefined && <MarkdownText text={data} />}
    </article>
  );
}
