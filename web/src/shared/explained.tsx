const CODE = /^(.*?)[\s.]*\((W\d{4})\)\.?$/s;

/** A text for a person; the code of an error at its end is behind a word, with the way to its page. */
export function Explained({ text }: { text: string }) {
  const [, words, code] = CODE.exec(text) ?? [];
  if (code === undefined) return text;
  return (
    <>
      {words}.
      <details className="code">
        <summary>What does this mean?</summary>
        <code>weft explain {code}</code> says what happened and what to do.
      </details>
    </>
  );
}
