import { useEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { useConnection } from "../api/connection";
import { Sending } from "../question/ask";
import { addFiles, Attach, isImage, withFiles, type Added } from "./attach";
import { AddedImage, TextFileView, type Said, type TextFile } from "./files";

interface Props {
  label: string;
  placeholder: string;
  /** Takes what a person says; `false` leaves it in the input. */
  onSaid: (said: Said) => boolean | Promise<boolean>;
  /** Gets the text and the added files when they change. */
  onDraft?: (text: string, files: Added[]) => void;
  /** Ends the run; `undefined` if nothing runs. */
  onStop?: () => void;
  focus?: boolean;
  /** The text before anything is typed. */
  initial?: string;
  /** The files before any is added. */
  initialFiles?: Added[];
  /** What stands above the input. */
  children?: ReactNode;
}

/** Key code of a key that an input method takes. Safari sends the last one after the composition. */
const TAKEN = 229;

/** Returns `true` for a key with which a person writes a character by an input method. */
function isComposed({ nativeEvent }: KeyboardEvent): boolean {
  return nativeEvent.isComposing || nativeEvent.keyCode === TAKEN;
}

/** The input for messages. Enter sends, Shift and Enter begin a line. */
export function TextInput({ label, placeholder, onSaid, onDraft, onStop, focus, initial = "", initialFiles = [], children }: Props) {
  const [text, setText] = useState(initial);
  const [isSending, setIsSending] = useState(false);
  const { isLost } = useConnection();
  const [files, setFiles] = useState<Added[]>(initialFiles);
  const input = useRef<HTMLTextAreaElement>(null);
  // The button of an answer is gone with its question, and the focus would be nowhere.
  useEffect(() => {
    if (focus && document.activeElement === document.body) input.current?.focus();
  }, [focus, label]);
  const draft = useRef(onDraft);
  draft.current = onDraft;
  const now = useRef({ text, files });
  now.current = { text, files };
  useEffect(() => void draft.current?.(text, files), [text, files]);
  const images = files.filter(isImage);
  const whole = withFiles(text.trim(), files.filter((file): file is TextFile => !isImage(file)));
  const isEmpty = whole === "" && images.length === 0;
  const add = (file: Added) => setFiles((before) => [...before.filter(({ name }) => name !== file.name), file]);
  const send = async () => {
    if (isEmpty || isSending) return;
    const said = text.trim();
    setIsSending(true);
    const isTaken = await onSaid({ text: whole, images });
    setIsSending(false);
    if (!isTaken) return;
    const left = { text: now.current.text.trim() === said ? "" : now.current.text, files: now.current.files.filter((file) => !files.includes(file)) };
    setText(left.text);
    setFiles(left.files);
    // The input may be drawn anew, with what is not sent.
    draft.current?.(left.text, left.files);
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
          {files.map((file) => {
            const remove = () => setFiles(files.filter((one) => one !== file));
            return isImage(file) ? (
              <AddedImage key={file.name} image={file} onRemove={remove} />
            ) : (
              <TextFileView key={file.name} file={file} onRemove={remove} />
            );
          })}
        </div>
      )}
      {children}
      <Attach onFile={add} />
      <textarea
        ref={input}
        rows={1}
        autoFocus={focus}
        aria-label={label}
        placeholder={placeholder}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
        onPaste={({ clipboardData }) => void addFiles([...clipboardData.files], add)}
      />
      {onStop ? (
        <button type="button" className="stop" onClick={onStop}>
          Stop
        </button>
      ) : (
        <button className="primary" disabled={isEmpty || isSending}>
          Send
        </button>
      )}
      {isSending && isLost && <Sending />}
    </form>
  );
}
