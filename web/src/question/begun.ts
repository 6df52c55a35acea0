// What a person has begun to answer, by question. It outlives that the messages are read again, such as after the
// answer to another question of the message.
import { createContext, useContext, useState } from "react";

const begun = new Map<string, Map<string, unknown>>();

/** Id of the question that is answered; a form without one keeps nothing. */
export const QuestionContext = createContext("");

/** Stores a part of an answer that is begun. */
export function keepBegun(question: string, name: string, value: unknown): void {
  if (question === "") return;
  begun.set(question, (begun.get(question) ?? new Map<string, unknown>()).set(name, value));
}

/** Returns a part of an answer that is begun. */
export function begunOf(question: string, name: string): unknown {
  return begun.get(question)?.get(name);
}

/** Forgets what was begun: the question is answered. */
export function forgetBegun(question: string): void {
  begun.delete(question);
}

/** Like `useState`, and stays when the question is drawn anew. */
export function useBegun<T>(name: string, initial: T): [T, (value: T) => void] {
  const question = useContext(QuestionContext);
  const [value, setValue] = useState<T>(() => (begunOf(question, name) as T | undefined) ?? initial);
  const set = (next: T) => {
    keepBegun(question, name, next);
    setValue(next);
  };
  return [value, set];
}
