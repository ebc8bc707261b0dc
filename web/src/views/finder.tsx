// Find anything: sessions by their names and by what was asked in them, and what can be done, by what it is called.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { now } from "../clock";
import { when } from "../format";
import { address, go, place } from "../router";
import { sessionId } from "../store/session";
import { type ListedSession, findSessions, sessions } from "../store/sessions";
import { setTheme } from "../store/settings";
import { shown } from "../visible";
import { Icon } from "./icon";
import { closeLayer, layer, openLayer, openPane, showSettings } from "./panes";
import { VIEWS, startSession } from "./sidebar";

const PAUSE_MS = 150; // between two letters of a word: the server is asked when a person looks up

interface Hit {
  key: string;
  icon: string;
  name: string;
  note: string;
  act: () => void;
}

function actions(): Hit[] {
  return [
    { key: "new", icon: "new", name: "New session", note: "N", act: startSession },
    ...VIEWS.map(({ view, icon, name }) => ({ key: view, icon, name, note: `G ${name.charAt(0)}`, act: () => go(address(view)) })),
    { key: "settings", icon: "settings", name: "Settings of this session", note: "", act: () => into(showSettings) },
    ...(place.value.view === "chat" && sessionId.value !== "" ? [{ key: "details", icon: "panel", name: "Details of this run", note: "", act: () => into(() => openPane("details")) }] : []),
    { key: "keys", icon: "keyboard", name: "All keys", note: "?", act: () => openLayer("keys") },
    { key: "dark", icon: "moon", name: "Dark theme", note: "", act: () => setTheme("dark") },
    { key: "light", icon: "sun", name: "Light theme", note: "", act: () => setTheme("light") },
  ];
}

/** The pane that was asked for by its name gets the focus. */
function into(open: () => void): void {
  open();
  requestAnimationFrame(() => document.querySelector<HTMLElement>(".pane")?.focus());
}

export function Finder(): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState("");
  const [chosen, setChosen] = useState(0);
  const [answer, setAnswer] = useState<{ words: string; sessions: ListedSession[] }>({ words: "", sessions: [] });
  useLayoutEffect(() => box.current?.showModal(), []);
  useEffect(() => {
    const asked = words.trim();
    if (asked === "") return;
    let isWanted = true;
    const take = (found: ListedSession[]) => isWanted && setAnswer({ words: asked, sessions: found });
    const timer = setTimeout(() => void findSessions(asked).then(take, () => take([])), PAUSE_MS);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [words]);
  const fits = (text: string) => words.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));
  const named = sessions.value.filter((one) => fits(one.title));
  const isAnswered = words.trim() === answer.words;
  const more = isAnswered && words.trim() !== "" ? answer.sessions.filter((one) => !named.some((other) => other.id === one.id)) : [];
  const found: Hit[] = [...named, ...more]
    .slice(0, 50)
    .map((one) => ({ key: `s:${one.id}`, icon: "message", name: one.title, note: when(one.updatedAt, now.value * 1000), act: () => go(address("chat", one.id)) }));
  const hits = [...found, ...actions().filter((one) => fits(one.name))];
  const at = Math.min(chosen, hits.length - 1);
  useLayoutEffect(() => box.current?.querySelector(`#hit-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);
  const take = (hit: Hit | undefined) => {
    if (hit === undefined) return;
    box.current?.close();
    closeLayer(); // at once: what the action opens keeps the focus
    hit.act();
  };
  return (
    <dialog
      ref={box}
      class="dialog finder"
      aria-label="Find"
      onClose={() => layer.value === "finder" && closeLayer()}
      onClick={(event) => event.target === box.current && box.current?.close()}
      onKeyDown={(event) => {
        if (event.key === "ArrowDown") setChosen(Math.min(hits.length - 1, at + 1));
        else if (event.key === "ArrowUp") setChosen(Math.max(0, at - 1));
        else if (event.key === "Enter") take(hits[at]);
        else return;
        event.preventDefault();
      }}
    >
      <label class="field">
        <Icon name="search" small />
        <input
          role="combobox"
          aria-expanded="true"
          aria-controls="hits"
          aria-activedescendant={hits.length > 0 ? `hit-${at}` : undefined}
          aria-label="Sessions and actions"
          placeholder="Sessions and actions"
          value={words}
          onInput={(event) => {
            setWords(event.currentTarget.value);
            setChosen(0);
          }}
        />
      </label>
      <div id="hits" class="list hits" role="listbox" aria-label="Found">
        {hits.map((hit, number) => (
          <div key={hit.key} id={`hit-${number}`} role="option" aria-selected={number === at} class={number === at ? "list-row on" : "list-row"} onClick={() => take(hit)} onMouseMove={() => setChosen(number)}>
            <Icon name={hit.icon} small />
            <span class="cut grow">{shown(hit.name)}</span>
            <span class="when">{hit.note}</span>
          </div>
        ))}
      </div>
      {found.length === 0 && words.trim() !== "" && isAnswered && (
        <div class="none">
          <span class="ico">
            <Icon name="search" />
          </span>
          <b class="strong">No session has “{shown(words)}”</b>
          <p>Titles and the first words of each question are searched, yours alone.</p>
          <button type="button" class="btn sm" onClick={() => setWords("")}>
            Clear the search
          </button>
        </div>
      )}
    </dialog>
  );
}
