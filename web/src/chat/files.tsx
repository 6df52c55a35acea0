import { useState } from "react";

/** Images that the page draws: of data within the message, without a request to their host. */
const DRAWN = /^data:image\/(png|jpeg|gif|webp);base64,/;

interface FileProps {
  mimeType: string;
  /** Address of the file; empty for one that was left out. */
  url: string;
}

/** A file of a message: an image as a thumbnail that opens, and others by their type. */
export function FileView({ mimeType, url }: FileProps) {
  const [isOpen, setIsOpen] = useState(false);
  if (DRAWN.test(url)) {
    return (
      <button type="button" className="thumbnail" aria-expanded={isOpen} aria-label={isOpen ? "Make the image smaller" : "Show the image"} onClick={() => setIsOpen(!isOpen)}>
        <img src={url} alt="Attached image" />
      </button>
    );
  }
  if (url.startsWith("data:")) {
    return (
      <a className="file" href={url} download>
        {mimeType} · {sizeOf(url)}
      </a>
    );
  }
  const host = URL.parse(url)?.host;
  return <p className="file">{host ? `${mimeType} at ${host}` : `${mimeType} (not stored)`}</p>;
}

/** Returns the size of the data of an address in words. */
function sizeOf(url: string): string {
  const data = url.length - url.indexOf(",") - 1;
  return bytesOf(Math.floor((url.includes(";base64,") ? 3 / 4 : 1) * data));
}

/** Returns a number of bytes in words: `812 B`, `3.4 kB`. */
export function bytesOf(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  const size = bytes < 1_000_000 ? [bytes / 1_000, "kB"] as const : [bytes / 1_000_000, "MB"] as const;
  return `${size[0].toLocaleString("en", { maximumFractionDigits: 1 })} ${size[1]}`;
}

/** An image of a message. */
export interface Image {
  name: string;
  mimeType: string;
  /** The image as a `data:` address. */
  url: string;
}

/** What a person says: a text, in which text files are, and images. */
export interface Said {
  text: string;
  images: Image[];
}

/** Returns what a person says as the content of a message in a request. */
export function contentOf({ text, images }: Said): object[] {
  const files = images.map(({ mimeType, url }) => ({ type: "file", mediaType: mimeType, url }));
  return text === "" ? files : [{ type: "text", text }, ...files];
}

/** An image that is added to a text. */
export function AddedImage({ image: { name, url }, onRemove }: { image: Image; onRemove: () => void }) {
  return (
    <div className="text-file">
      <div className="text-file-head">
        <span>{name}</span>
        <span className="size">{sizeOf(url)}</span>
        <button type="button" className="quiet" aria-label={`Remove ${name}`} onClick={onRemove}>
          ×
        </button>
      </div>
      <span className="thumbnail">
        <img src={url} alt={name} />
      </span>
    </div>
  );
}

/** A text file within a message. */
export interface TextFile {
  name: string;
  text: string;
}

/** A text file as the page adds it to a text: its name, and its text in a fence. */
const TEXT_FILE = /(?:^|\n\n)File ([^\n]+):\n(`{3,})\n([^]*?)\n\2(?=\n\n|$)/g;

/** Returns a text without the files that the page added to it, and the files. */
export function withoutFiles(text: string): { text: string; files: TextFile[] } {
  const files: TextFile[] = [];
  const rest = text.replace(TEXT_FILE, (_whole, name: string, _fence: string, content: string) => {
    files.push({ name, text: content });
    return "";
  });
  return { text: rest.trim(), files };
}

/** Number of lines of a thumbnail. */
const LINES = 4;

/** A text file: its name and its first lines, and the whole on request. */
export function TextFileView({ file: { name, text }, onRemove }: { file: TextFile; onRemove?: () => void }) {
  const [isOpen, setIsOpen] = useState(false);
  const lines = text.split("\n");
  return (
    <div className="text-file">
      <div className="text-file-head">
        <span>{name}</span>
        <span className="size">{bytesOf(new TextEncoder().encode(text).length)}</span>
        {lines.length > LINES && (
          <button type="button" className="quiet" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
            {isOpen ? "Less" : "All"}
          </button>
        )}
        {onRemove && (
          <button type="button" className="quiet" aria-label={`Remove ${name}`} onClick={onRemove}>
            ×
          </button>
        )}
      </div>
      <pre tabIndex={0} role="group" aria-label={name}>
        {isOpen ? text : lines.slice(0, LINES).join("\n")}
      </pre>
    </div>
  );
}
