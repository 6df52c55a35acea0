import { useRef } from "react";
import { fenced } from "../shared/fence";
import { toast } from "../shared/toast";

/** Largest file that is added to a text, in bytes. */
const FILE_BYTES_MAX = 200_000;

/** Returns a file as a code block; throws for a file that is no text. */
async function textOf(file: File): Promise<string> {
  if (file.size > FILE_BYTES_MAX) {
    throw new Error(`${file.name} has ${file.size.toLocaleString("en")} bytes; at most ${FILE_BYTES_MAX.toLocaleString("en")} are sent.`);
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not a text.`);
  }
  return `File ${file.name}:\n${fenced(text.trimEnd())}`;
}

/** Adds text files to the text that is written. */
export function Attach({ onText }: { onText: (text: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const add = async () => {
    for (const file of input.current?.files ?? []) {
      await textOf(file).then(onText, (error: Error) => toast({ text: error.message }));
    }
    if (input.current) input.current.value = "";
  };
  return (
    <>
      <button type="button" className="attach" aria-label="Add text files" title="Add text files" onClick={() => input.current?.click()}>
        <span aria-hidden="true">+</span>
      </button>
      <input ref={input} type="file" multiple hidden aria-label="Text files" onChange={add} />
    </>
  );
}
