import { createContext, useContext } from "react";
import type { Call, Json } from "../api/types";

/** Actions of the messages of a conversation. */
export interface Actions {
  agent: string;
  /** Answers a question of the last message. Rejects if the server does not take the answer. */
  answer: (call: Call, answer: Json) => Promise<void>;
  /** Shows why an action did not happen, and reads the messages again if they are not those of the server. */
  refuse: (error: Error, call?: Call) => void;
  /** Makes the agent answer again in place of an answer. */
  retry: (message: string) => void;
  /** Says a text. */
  say: (text: string) => void;
  /** Goes on with the last answer, whose run was stopped or failed. */
  goOn: () => void;
  /** Makes the agent answer the request before an answer again, in a fork of the thread. */
  retryInFork: (answer: string) => void;
  /** Says something else in place of a message of the user, in a fork of the thread. */
  fork: (message: { id: string; text: string }, text: string) => Promise<void>;
}

export const ActionsContext = createContext<Actions | undefined>(undefined);

export function useActions(): Actions {
  const actions = useContext(ActionsContext);
  if (!actions) throw new Error("a message is outside of a conversation");
  return actions;
}
