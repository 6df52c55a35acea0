import { toast } from "./toast";

/** Copies a text, and reports it. */
export function copyText(text: string): void {
  navigator.clipboard.writeText(text).then(
    () => toast({ text: "Copied." }),
    () => toast({ text: "The browser does not allow copying here." }),
  );
}
