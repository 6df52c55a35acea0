import { useCallback, useEffect, useState } from "react";
import { AgentView } from "./agents/agent";
import { useConnection } from "./api/connection";
import { logIn, onLocked } from "./api/http";
import { Chat } from "./chat/chat";
import { NewChat } from "./chat/new-chat";
import { ErrorPage } from "./errors/error-page";
import { Inbox } from "./inbox/inbox";
import { useInbox } from "./inbox/data";
import { Login } from "./login/login";
import { Help } from "./shared/help";
import { useIsPhone } from "./shared/phone";
import { useKept } from "./shared/polled";
import { go, link, usePlace } from "./shared/route";
import { Toasts } from "./shared/toast";
import { Sidebar } from "./threads/sidebar";
import { PAGE, useThreads, type ListQuery } from "./threads/data";
import { Usage } from "./usage/usage";

const TICKET = /^#ticket=([\w-]+)$/;

/** The page. A ticket in the address is exchanged for a cookie first. */
export function App() {
  const [state, setState] = useState<"opening" | "locked" | "open">(
    TICKET.test(window.location.hash) ? "opening" : "open",
  );
  useEffect(() => onLocked(() => setState("locked")), []);
  useEffect(() => {
    const ticket = TICKET.exec(window.location.hash)?.[1];
    if (ticket === undefined) return;
    go({ view: "threads" }, true);
    logIn({ ticket }).then(
      () => setState("open"),
      () => setState("locked"),
    );
  }, []);
  const open = useCallback(() => setState("open"), []);
  if (state === "opening") return null;
  return state === "locked" ? <Login onDone={open} /> : <Views />;
}

function Views() {
  const place = usePlace();
  // The list of threads is a screen of its own there.
  const isList = useIsPhone() && place.view === "threads";
  const [query, setQuery] = useState<ListQuery>({ words: "", status: undefined, limit: PAGE });
  const threads = useKept(useThreads(query));
  const inbox = useInbox();
  const refresh = useCallback(() => {
    threads.refresh();
    inbox.refresh();
  }, [threads.refresh, inbox.refresh]);
  return (
    <div className="shell" data-view={place.view}>
      <a className="skip" href="#content" onClick={focusContent}>
        Skip to content
      </a>
      <Sidebar place={place} threads={threads} query={query} onQuery={setQuery} waiting={inbox.data?.length ?? 0} />
      <main id="content" tabIndex={-1}>
        <Lost />
        {place.view === "inbox" && <Inbox tab={place.tab} inbox={inbox} onAnswered={refresh} />}
        {place.view === "usage" && <Usage />}
        {place.view === "agent" && <AgentView key={place.slug} slug={place.slug} />}
        {place.view === "error" && <ErrorPage key={place.code} code={place.code} />}
        {place.view === "thread" && <Chat key={place.thread} thread={place.thread} onChange={refresh} />}
        {place.view === "unknown" && <NoPage />}
        {isList && <h1 className="unseen">Threads</h1>}
        {!isList && (place.view === "threads" || place.view === "new") && (
          <NewChat agent={place.view === "new" ? place.agent : undefined} />
        )}
      </main>
      <Toasts />
      <Help />
    </div>
  );
}

/** Says that an address leads to no view. */
function NoPage() {
  useEffect(() => void (document.title = "No such page · Weftwork"), []);
  return (
    <section className="empty" aria-labelledby="no-page">
      <h1 id="no-page">There is no such page</h1>
      <p>The address may be cut or mistyped.</p>
      <div className="actions">
        <a href={link({ view: "new" })}>New chat</a>
        <a href={link({ view: "inbox", tab: "open" })}>Inbox</a>
      </div>
    </section>
  );
}

/** Says that the server does not answer, whatever the view. */
function Lost() {
  const { isLost } = useConnection();
  return (
    <div role="alert">{isLost && <p className="lost">Connection cut; trying again. What is shown may be old, and nothing can be sent.</p>}</div>
  );
}

function focusContent(event: React.MouseEvent) {
  event.preventDefault();
  document.getElementById("content")?.focus();
}
