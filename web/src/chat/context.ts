import { createContext, useContext } from "react";

/** Actions of the messages of a conversation. */
export interface Actions {
  agent: string;
  /** Makes the agent answer again in place of an answer. */
  retry: (message: string) => void;
  /** Says something else in place of the message of the user at a place among those of the user, in a thread of its own. */
  branch: (place: number, text: string) => Promise<void>;
}

export const ActionsContext = createContext<Actions | undefined>(undefined);

/** Number of messages of the user before those of a runtime. */
export const PlaceContext = createContext(0);

export function useActions(): Actions {
  const actions = useContext(ActionsContext);
  if (!actions) throw new Error("a message is outside of a conversation");
  return actions;
}
