import { useMemo, useState } from "react";

/** Length from which a text is drawn as it is, and in part, because formatting it takes long. */
export const LONG = 50_000;
/** Length of the part that is shown first, and of each piece. */
const PIECE = 10_000;

/** Splits a text into pieces that end with a line if there is one. */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    const line = text.indexOf("\n", at + PIECE);
    const end = line === -1 || line > at + 2 * PIECE ? at + PIECE : line + 1;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

/** A long text without formatting: its beginning, and the rest on request, of which only what is seen is drawn. */
export function LongText({ text }: { text: string }) {
  const [isWhole, setIsWhole] = useState(false);
  const pieces = useMemo(() => (isWhole ? piecesOf(text) : [text.slice(0, PIECE)]), [isWhole, text]);
  return (
    <div className="long">
      {pieces.map((piece, at) => (
        <div key={at} className="piece">
          {piece}
        </div>
      ))}
      {!isWhole && (
        <button className="quiet" onClick={() => setIsWhole(true)}>
          Show all {text.length.toLocaleString("en")} characters
        </button>
      )}
    </div>
  );
}
