import { link } from "./route";

const CODE = /^(.*?)[\s.]*\((W\d{4})\)\.?$/s;

/** A text for a person; the code of an error at its end is behind a word that leads to its page. */
export function Explained({ text }: { text: string }) {
  const [, words, code] = CODE.exec(text) ?? [];
  if (code === undefined) return text;
  return (
    <>
      {words}.{" "}
      <a className="code" href={link({ view: "error", code })} target="_blank" rel="noopener" title={code}>
        What does this mean?
      </a>
    </>
  );
}
