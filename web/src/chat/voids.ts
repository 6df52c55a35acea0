// Texts and calls of attempts that failed: the next attempt begins anew, and a stream has both.
import type { ChatModelRunResult } from "@assistant-ui/react";
import type { Json } from "../api/types";

/** What a failed attempt had. */
interface Void {
  /** Positions among the texts of the response. */
  texts: number[];
  /** Ids. */
  calls: string[];
}

type Part = NonNullable<ChatModelRunResult["content"]>[number];

/** Text between a void text and the next one, for readers that show both. */
const RULE = "\n\n---\n\n";

/** Collects what is void in a response. */
export class Voids {
  private readonly texts = new Set<number>();
  private readonly calls = new Set<string>();

  add({ name, data }: { name: string; data: Json }): void {
    if (name !== "retry") return;
    const { texts = [], calls = [] } = ((data as { void?: unknown } | null)?.void ?? {}) as Partial<Void>;
    for (const text of texts) this.texts.add(text);
    for (const call of calls) this.calls.add(call);
  }

  /** Returns a message without what is void. */
  removeFrom(result: ChatModelRunResult): ChatModelRunResult {
    if (this.texts.size + this.calls.size === 0 || !result.content) return result;
    let position = -1;
    const content = result.content.flatMap((part): Part[] => {
      if (part.type === "tool-call") return this.calls.has(part.toolCallId) ? [] : [part];
      if (part.type !== "text" && part.type !== "reasoning") return [part];
      position += 1;
      if (this.texts.has(position)) return [];
      return part.text.startsWith(RULE) ? [{ ...part, text: part.text.slice(RULE.length) }] : [part];
    });
    return { ...result, content };
  }
}
