const TYPES: Record<string, string> = { json: "application/json", md: "text/markdown" };

/** Saves a text as a file whose name is made of a title. */
export function saveFile(title: string, ending: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: TYPES[ending] ?? "text/plain" }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = `${title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "thread"}.${ending}`;
  anchor.click();
  URL.revokeObjectURL(url);
}
