import { useState } from "react";
import type { Json } from "../api/types";
import { bytesOf } from "../chat/files";
import { MarkdownText } from "../chat/markdown";
import { reasonOf } from "../question/first";
import { useLoaded } from "../run/data";
import { DiffTree, ValueTree } from "../run/tree";
import { copyText } from "../shared/copy";
import { differences } from "../shared/diff";
import { stringify } from "../shared/digits";
import { saveFile } from "../shared/file";
import { Rows } from "../shared/rows";
import { makeCurrent, makerOf, readContent, timeOf, valueOf, type Made, type Version } from "./data";
import { EditVersion } from "./edit";
import { linesOf } from "./lines";

const ENDINGS: Record<Version["format"], string> = { markdown: "md", json: "json", html: "html", yaml: "yaml" };

interface Props {
  conversation: string;
  made: Made;
  onChange: () => void;
}

/** A version of a record, which is read, compared with another one, edited, and made the current one. */
export function MadeVersion({ conversation, made, onChange }: Props) {
  const { versions, current } = made;
  // What a person chose stays, also if another version becomes the current one.
  const [chosen, setChosen] = useState(current);
  const [other, setOther] = useState(0);
  const [isEdited, setIsEdited] = useState(false);
  const [isSending, setIsSending] = useState(false);
  const [problem, setProblem] = useState<string>();
  const version = versions.find(({ number }) => number === chosen);
  const here = useContent(conversation, made, version?.number ?? 0);
  const there = useContent(conversation, made, other);
  const choose = (number: number) => {
    setChosen(number);
    setIsEdited(false);
    setProblem(undefined);
    if (number === other) setOther(0);
  };
  const set = async () => {
    setIsSending(true);
    setProblem(undefined);
    await makeCurrent({ conversation, made, version: chosen }).catch((error: Error) => setProblem(reasonOf(error)));
    setIsSending(false);
    onChange();
  };
  const isCurrent = chosen === current;
  return (
    <div className="inside">
      <label>
        Version
        <select value={chosen} onChange={(event) => choose(Number(event.target.value))}>
          {versions.toReversed().map((one) => (
            <option key={one.number} value={one.number}>
              {nameOf(one)}
              {one.number === current ? " (current)" : ""}
            </option>
          ))}
          {version === undefined && <option value={chosen}>{chosen} (deleted)</option>}
        </select>
      </label>
      {version === undefined ? (
        <p className="problem">Somebody deleted this version.</p>
      ) : (
        <>
          <Rows
            label="About this version"
            rows={[
              ["Title", version.title],
              ["Type", version.type],
              ["Made by", makerOf(version)],
              ["At", timeOf(version)],
              ["Made from", version.parent !== undefined && `version ${version.parent}`],
              ["Size", bytesOf(version.bytes)],
            ]}
          />
          <div className="actions">
            <button disabled={isCurrent || isSending} onClick={() => void set()}>
              {isCurrent ? "Is the current one" : "Make it the current one"}
            </button>
            <button aria-pressed={isEdited} disabled={!isCurrent || here.data === undefined} title={isCurrent ? undefined : "The current version is edited"} onClick={() => setIsEdited(!isEdited)}>
              Edit
            </button>
          </div>
          {problem && (
            <p className="problem" role="alert">
              {problem}
            </p>
          )}
          {versions.length > 1 && !isEdited && (
            <label>
              Compare with
              <select value={other} onChange={(event) => setOther(Number(event.target.value))}>
                <option value={0}>nothing</option>
                {versions
                  .filter(({ number }) => number !== chosen)
                  .toReversed()
                  .map((one) => (
                    <option key={one.number} value={one.number}>
                      {nameOf(one)}
                    </option>
                  ))}
              </select>
            </label>
          )}
          {here.problem && <p className="problem">{here.problem}</p>}
          {here.data === undefined && !here.problem && <p className="none">Loading…</p>}
          {isEdited && here.data !== undefined && (
            <EditVersion
              place={{ conversation, made, version: chosen }}
              format={version.format}
              content={here.data}
              onEnd={(added) => {
                setIsEdited(false);
                if (added !== undefined) setChosen(added);
                onChange();
              }}
            />
          )}
          {!isEdited && here.data !== undefined && other === 0 && <Content format={version.format} content={valueOf(version.format, here.data)} />}
          {!isEdited && here.data !== undefined && other !== 0 && there.data !== undefined && <Comparison before={valueOf(version.format, there.data)} after={valueOf(version.format, here.data)} />}
          {here.data !== undefined && (
            <div className="acts">
              <button className="quiet" onClick={() => copyText(textOf(here.data ?? null))}>
                Copy
              </button>
              <button className="quiet" onClick={() => saveFile(`${version.title} ${version.number}`, ENDINGS[version.format], textOf(here.data ?? null))}>
                Download
              </button>
            </div>
          )}
        </>
      )}
    </div>
  );
}

function nameOf(version: Version): string {
  return `${version.number} · ${timeOf(version)} · ${makerOf(version)}`;
}

/** Returns a content as a text. */
export function textOf(content: Json): string {
  return typeof content === "string" ? content : stringify(content, 2);
}

function useContent(conversation: string, made: Made, version: number) {
  const key = `${made.id}/${version}`;
  const loaded = useLoaded(version === 0 ? false : key, (signal) => readContent({ conversation, made, version }, signal));
  return loaded.of === key ? loaded : { problem: loaded.data === undefined ? loaded.problem : undefined };
}

/** The content of a version. HTML is shown as its text, and never drawn. */
function Content({ format, content }: { format: Version["format"]; content: Json }) {
  if (format === "markdown" && typeof content === "string") {
    return (
      <article aria-label="Content">
        <MarkdownText text={content} />
      </article>
    );
  }
  if (typeof content === "string") {
    return (
      <pre className="source" tabIndex={0} role="group" aria-label="Content">
        {content}
      </pre>
    );
  }
  return <ValueTree value={content} label="Content" />;
}

const MARKS = { same: " ", removed: "−", added: "+" };

function Comparison({ before, after }: { before: Json; after: Json }) {
  if (typeof before === "string" && typeof after === "string") {
    const lines = linesOf(before, after);
    if (lines.every(({ kind }) => kind === "same")) return <p className="none">The versions are equal.</p>;
    return (
      <ol className="lines" aria-label="Changes">
        {lines.map(({ kind, text }, at) => (
          <li key={at} data-kind={kind}>
            <span aria-label={kind === "same" ? undefined : kind}>{MARKS[kind]}</span>
            {kind === "removed" ? <del>{text}</del> : kind === "added" ? <ins>{text}</ins> : <span>{text}</span>}
          </li>
        ))}
      </ol>
    );
  }
  if (differences(before, after).length === 0) return <p className="none">The versions are equal.</p>;
  return <DiffTree before={before} after={after} label="Changes" />;
}
