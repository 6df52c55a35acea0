import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { useConnection } from "../api/connection";
import { Sending } from "../question/ask";
import { Attach, withFiles } from "./attach";
import { TextFileView, type TextFile } from "./files";

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

/** Key code of a key that an input method takes. Safari sends the last one after the composition. */
const TAKEN = 229;

/** Returns `true` for a key with which a person writes a character by an input method. */
function isComposed({ nativeEvent }: KeyboardEvent): boolean {
  return nativeEvent.isComposing || nativeEvent.keyCode === TAKEN;
}

/** The input for messages. Enter sends, Shift and Enter begin a line. */
export function TextInput({ label, placeholder, onText, onDraft, onStop, focus, initial = "" }: Props) {
  const [text, setText] = useState(initial);
  const [isSending, setIsSending] = useState(false);
  const { isLost } = useConnection();
  const [files, setFiles] = useState<TextFile[]>([]);
  const input = useRef<HTMLTextAreaElement>(null);
  // The button of an answer is gone with its question, and the focus would be nowhere.
  useEffect(() => {
    if (focus && document.activeElement === document.body) input.current?.focus();
  }, [focus, label]);
  const draft = useRef(onDraft);
  draft.current = onDraft;
  useEffect(() => void draft.current?.(text), [text]);
  const whole = withFiles(text.trim(), files);
  const send = async () => {
    if (whole === "" || isSending) return;
    const said = text.trim();
    setIsSending(true);
    const isTaken = await onText(whole);
    setIsSending(false);
    if (!isTaken) return;
    setText((now) => (now.trim() === said ? "" : now));
    setFiles((now) => now.filter((file) => !files.includes(file)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || isComposed(event)) return;
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
      {files.length > 0 && (
        <div className="added" role="group" aria-label="Added files">
          {files.map((file) => (
            <TextFileView key={file.name} file={file} onRemove={() => setFiles(files.filter((one) => one !== file))} />
          ))}
        </div>
      )}
      <Attach onFile={(file) => setFiles((before) => [...before.filter(({ name }) => name !== file.name), file])} />
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
      {isSending && isLost && <Sending />}
      {onStop ? (
        <button type="button" className="stop" onClick={onStop}>
          Stop
        </button>
      ) : (
        <button className="primary" disabled={whole === "" || isSending}>
          Send
        </button>
      )}
    </form>
  );
}
