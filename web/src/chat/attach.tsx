import { useRef } from "react";
import { fenced } from "../shared/fence";
import { toast } from "../shared/toast";
import { bytesOf, type Image, type TextFile } from "./files";

/** Largest text file that is added to a text, in bytes. */
const TEXT_BYTES_MAX = 200_000;
/** Largest image, in bytes: the server takes requests of 16 MiB, and an image grows by a third on the way. */
const IMAGE_BYTES_MAX = 5_000_000;
/** Types of images that all models with images read. */
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** A file that is added to a text. */
export type Added = TextFile | Image;

export function isImage(file: Added): file is Image {
  return "url" in file;
}

/** Reads a file; throws for one that is neither a text nor an image that models read. */
export async function readFile(file: File): Promise<Added> {
  const isPicture = file.type.startsWith("image/");
  const most = isPicture ? IMAGE_BYTES_MAX : TEXT_BYTES_MAX;
  if (file.size > most) throw new Error(`${file.name} has ${bytesOf(file.size)}; at most ${bytesOf(most)} are sent.`);
  if (isPicture && IMAGES.includes(file.type)) return { name: file.name, mimeType: file.type, url: await addressOf(file) };
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return { name: file.name, text: text.trimEnd() };
  } catch {
    throw new Error(`${file.name} is neither a text nor an image of type PNG, JPEG, GIF or WebP.`);
  }
}

/** Returns a file as a `data:` address. */
function addressOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

/** Reads files, and reports those that cannot be added. */
export async function addFiles(files: Iterable<File>, onFile: (file: Added) => void): Promise<void> {
  for (const file of files) await readFile(file).then(onFile, (error: Error) => toast({ text: error.message }));
}

/** Returns a text with files, each with its name as a block of code. */
export function withFiles(text: string, files: TextFile[]): string {
  return [text, ...files.map((file) => `File ${file.name}:\n${fenced(file.text)}`)].filter(Boolean).join("\n\n");
}

/** Adds text files and images to the text that is written. */
export function Attach({ onFile }: { onFile: (file: Added) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const add = async () => {
    await addFiles(input.current?.files ?? [], onFile);
    if (input.current) input.current.value = "";
  };
  return (
    <>
      <button type="button" className="attach" aria-label="Add text files or images" title="Add text files or images" onClick={() => input.current?.click()}>
        <span aria-hidden="true">+</span>
      </button>
      <input ref={input} type="file" multiple hidden aria-label="Text files or images" onChange={add} />
    </>
  );
}
