import type { ToolCallMessagePartComponent } from "@assistant-ui/react";
import { QuestionPart } from "../question/part";
import { Calculate } from "./calculate";
import { LookupOrder } from "./lookup_order";

/** Cards by the name of the tool; other tools have the card of `./card`. */
export const CARDS: Record<string, ToolCallMessagePartComponent> = {
  ask_human: QuestionPart,
  request_approval: QuestionPart,
  calculate: Calculate,
  lookup_order: LookupOrder,
};
