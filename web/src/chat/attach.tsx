import { useRef } from "react";
import { fenced } from "../shared/fence";
import { toast } from "../shared/toast";
import type { TextFile } from "./files";

/** Largest file that is added to a text, in bytes. */
const FILE_BYTES_MAX = 200_000;

/** Reads a file; throws for a file that is no text. */
async function readFile(file: File): Promise<TextFile> {
  if (file.size > FILE_BYTES_MAX) {
    throw new Error(`${file.name} has ${file.size.toLocaleString("en")} bytes; at most ${FILE_BYTES_MAX.toLocaleString("en")} are sent.`);
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return { name: file.name, text: text.trimEnd() };
  } catch {
    throw new Error(`${file.name} is not a text.`);
  }
}

/** Returns a text with files, each with its name as a block of code. */
export function withFiles(text: string, files: TextFile[]): string {
  return [text, ...files.map((file) => `File ${file.name}:\n${fenced(file.text)}`)].filter(Boolean).join("\n\n");
}

/** Adds text files to the text that is written. */
export function Attach({ onFile }: { onFile: (file: TextFile) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const add = async () => {
    for (const file of input.current?.files ?? []) {
      await readFile(file).then(onFile, (error: Error) => toast({ text: error.message }));
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
