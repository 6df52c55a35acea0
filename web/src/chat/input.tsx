import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { Attach } from "./attach";

interface Props {
  label: string;
  placeholder: string;
  /** Takes a text; `false` leaves it in the input. */
  onText: (text: string) => boolean | Promise<boolean>;
  /** Gets the text when it changes. */
  onDraft?: (text: string) => void;
  /** Ends the run; `undefined` if nothing runs. */
  onStop?: () => void;
  focus?: boolean;
  /** The text before anything is typed. */
  initial?: string;
}

/** The input for messages. Enter sends, Shift and Enter begin a line. */
export function TextInput({ label, placeholder, onText, onDraft, onStop, focus, initial = "" }: Props) {
  const [text, setText] = useState(initial);
  const [isSending, setIsSending] = useState(false);
  const input = useRef<HTMLTextAreaElement>(null);
  // The button of an answer is gone with its question, and the focus would be nowhere.
  useEffect(() => {
    if (focus && document.activeElement === document.body) input.current?.focus();
  }, [focus, label]);
  const draft = useRef(onDraft);
  draft.current = onDraft;
  useEffect(() => void draft.current?.(text), [text]);
  const send = async () => {
    const said = text.trim();
    if (said === "" || isSending) return;
    setIsSending(true);
    const isTaken = await onText(said);
    setIsSending(false);
    if (isTaken) setText((now) => (now.trim() === said ? "" : now));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  };
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <Attach onText={(added) => setText((before) => [before.trimEnd(), added].filter(Boolean).join("\n\n"))} />
      <textarea
        ref={input}
        rows={1}
        autoFocus={focus}
        aria-label={label}
        placeholder={placeholder}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {onStop ? (
        <button type="button" className="stop" onClick={onStop}>
          Stop
        </button>
      ) : (
        <button className="primary" disabled={text.trim() === "" || isSending}>
          Send
        </button>
      )}
    </form>
  );
}
