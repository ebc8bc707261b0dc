// The way around: find, the four views, sessions by day. A rail where there is little room, a sheet on a phone.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { api } from "../api";
import { now } from "../clock";
import { dayGroup, when } from "../format";
import { type View, address, go, place } from "../router";
import { facts, isSignedIn, logOut, me, needsKey } from "../store/server";
import { sessionId } from "../store/session";
import { type ListedSession, approvals, hasMore, isListed, loadMore, refreshLists, removeSession, running, sessions, undo, undoRemoval } from "../store/sessions";
import { isDark, setTheme } from "../store/settings";
import { connection } from "../stream";
import { shown } from "../visible";
import { Icon, Mark } from "./icon";
import { closeLayer, openLayer, openPane, pane, showSettings } from "./panes";
import { CTRL } from "./view-keys";

export const isNarrow = signal(false);

export const VIEWS: { view: View; icon: string; name: string }[] = [
  { view: "chat", icon: "message", name: "Chat" },
  { view: "build", icon: "layout", name: "Build" },
  { view: "runs", icon: "runs", name: "Runs" },
  { view: "operate", icon: "activity", name: "Operate" },
];

export function startSession(): void {
  closeLayer();
  go(address("chat"));
  requestAnimationFrame(() => document.getElementById("composer")?.focus());
}

export function Sidebar(): VNode {
  return (
    <div class="side">
      <header>
        <a class="brand" href={address("chat")}>
          <Mark />
          Ronda
        </a>
        <span class="end row tight">
          <button type="button" class="ic hide-phone" aria-label="Fold the sidebar" title="Fold the sidebar" onClick={() => (isNarrow.value = true)}>
            <Icon name="sidebar" />
          </button>
          <button type="button" class="ic" aria-label="New session" title="New session (N)" onClick={startSession}>
            <Icon name="new" />
          </button>
        </span>
      </header>
      <button type="button" class="find" onClick={() => openLayer("finder")}>
        <Icon name="search" small />
        <span>Search sessions</span>
        <kbd>{CTRL} K</kbd>
      </button>
      <Views />
      <SessionList />
      <Foot />
    </div>
  );
}

export function Views(): VNode {
  return (
    <nav class="nav" aria-label="Views">
      {VIEWS.map(({ view, icon, name }) => (
        <a key={view} href={address(view)} aria-current={place.value.view === view ? "page" : undefined} onClick={closeLayer}>
          <Icon name={icon} />
          {name}
          {countOf(view) > 0 && <span class={view === "operate" ? "count wait" : "count"}>{countOf(view)}</span>}
          <span class="vh">{meaningOf(view)}</span>
        </a>
      ))}
    </nav>
  );
}

/** The number beside a view. */
function countOf(view: View): number {
  return view === "runs" ? running.value : view === "operate" ? approvals.value.length : 0;
}

/** What that number means, for readers who do not see its colour. */
function meaningOf(view: View): string {
  return countOf(view) === 0 ? "" : view === "runs" ? " running" : " wait for you";
}

export function Rail(): VNode {
  const isForced = place.value.view === "build" || (place.value.view === "runs" && place.value.id !== "");
  return (
    <div class="side">
      <header>
        <button type="button" class="ic" aria-label="Open the sidebar" title="Open the sidebar" onClick={() => (innerWidth >= 1200 && !isForced ? (isNarrow.value = false) : openLayer("sidebar"))}>
          <Mark />
        </button>
      </header>
      <nav class="rail-nav" aria-label="Views">
        {VIEWS.map(({ view, icon, name }) => (
          <a key={view} class="rail-item" href={address(view)} aria-label={countOf(view) > 0 ? `${name}, ${countOf(view)}${meaningOf(view)}` : name} title={name} aria-current={place.value.view === view ? "page" : undefined}>
            <Icon name={icon} />
            {countOf(view) > 0 && <span class={view === "operate" ? "pip wait" : "pip live"} />}
          </a>
        ))}
      </nav>
      <div class="rail-nav rail-more">
        <button type="button" class="rail-item" aria-label="Search sessions" title={`Search sessions (${CTRL} K)`} onClick={() => openLayer("finder")}>
          <Icon name="search" />
        </button>
        <button type="button" class="rail-item" aria-label="New session" title="New session (N)" onClick={startSession}>
          <Icon name="new" />
        </button>
      </div>
      <div class="rail-nav rail-foot">
        <button type="button" class="rail-item" aria-label={isDark.value ? "Use the light theme" : "Use the dark theme"} title="Theme" onClick={() => setTheme(isDark.value ? "light" : "dark")}>
          <Icon name={isDark.value ? "sun" : "moon"} />
        </button>
        <button type="button" class="rail-item" aria-label="Settings" title="Settings" onClick={toggleSettings}>
          <Icon name="settings" />
        </button>
      </div>
    </div>
  );
}

export function PhoneTabs(): VNode {
  return (
    <nav class="tabbar" aria-label="Views">
      {VIEWS.map(({ view, icon, name }) => (
        <a key={view} href={address(view)} aria-current={place.value.view === view ? "page" : undefined}>
          <Icon name={icon} />
          {name}
          {view === "operate" && countOf(view) > 0 && (
            <>
              <span class="pip">{countOf(view)}</span>
              <span class="vh">{meaningOf(view)}</span>
            </>
          )}
        </a>
      ))}
    </nav>
  );
}

function SessionList(): VNode {
  const list = sessions.value;
  const seconds = now.value * 1000;
  if (list.length === 0) {
    return (
      <nav class="sessions" aria-label="Sessions">
        <div class="group">Sessions</div>
        {isListed.value && <p class="small t3 empty">What you ask is kept here, until it was not used for {facts.value?.session_days ?? 30} days.</p>}
        <Undo />
      </nav>
    );
  }
  const groups = new Map<string, ListedSession[]>();
  for (const one of list) {
    const group = dayGroup(one.updatedAt, seconds);
    groups.set(group, [...(groups.get(group) ?? []), one]);
  }
  return (
    <nav class="sessions" aria-label="Sessions">
      {[...groups].map(([name, rows]) => (
        <div key={name}>
          <div class="group">{name}</div>
          <div class="list">
            {rows.map((row) => (
              <SessionLink key={row.id} row={row} now={seconds} />
            ))}
          </div>
        </div>
      ))}
      {hasMore() && (
        <button type="button" class="btn sm quiet more" onClick={() => void loadMore()}>
          Older sessions
        </button>
      )}
      <Undo />
    </nav>
  );
}

function Undo(): VNode | null {
  if (undo.value === null) return null;
  return (
    <div class="undo" role="status">
      <span class="cut grow">Deleted “{shown(undo.value.title)}”</span>
      <button type="button" class="btn sm" onClick={undoRemoval}>
        Undo
      </button>
    </div>
  );
}

function SessionLink({ row, now: seconds }: { row: ListedSession; now: number }): VNode {
  const [name, setName] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const link = useRef<HTMLAnchorElement>(null);
  const isCurrent = place.value.view === "chat" && sessionId.value === row.id;
  useLayoutEffect(() => field.current?.select(), [name === null]);
  const keep = () => {
    const text = name?.trim() ?? "";
    setName(null);
    if (text !== "" && text !== row.title) void api.changeSession(row.id, { title: text }).then(refreshLists, refreshLists);
  };
  if (name !== null) {
    return (
      <input
        ref={field}
        class="rename"
        aria-label="Name of the session"
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        onBlur={keep}
        onKeyDown={(event) => {
          event.stopPropagation();
          if (event.key !== "Enter" && event.key !== "Escape") return;
          if (event.key === "Enter") keep();
          else setName(null);
          requestAnimationFrame(() => link.current?.focus());
        }}
      />
    );
  }
  return (
    <div class="list-item">
      <a
        ref={link}
        href={address("chat", row.id)}
        aria-current={isCurrent ? "page" : undefined}
        data-row
        onClick={closeLayer}
        onDblClick={(event) => {
          event.preventDefault();
          setName(row.title);
        }}
        onKeyDown={(event) => {
          if (event.key === "F2") setName(row.title);
          else if (event.key === "Delete") remove(row, isCurrent);
        }}
      >
        <span class="cut">{shown(row.title)}</span>
        <RowMark row={row} now={seconds} />
      </a>
      <span class="row-acts">
        <button type="button" class="ic sm" aria-label={`Rename ${shown(row.title)}`} title="Rename" onClick={() => setName(row.title)}>
          <Icon name="edit" small />
        </button>
        <button type="button" class="ic sm" aria-label={`Delete ${shown(row.title)}`} title="Delete" onClick={() => remove(row, isCurrent)}>
          <Icon name="trash" small />
        </button>
      </span>
    </div>
  );
}

function remove(row: ListedSession, isCurrent: boolean): void {
  removeSession(row.id, row.title);
  if (isCurrent) go(address("chat"));
}

function RowMark({ row, now: seconds }: { row: ListedSession; now: number }): VNode {
  if (row.mark === "running") return <span class="dot live" role="img" aria-label="running" title="running" />;
  if (row.mark === "waits") return <span class="dot wait" role="img" aria-label="waits for you" title="waits for you" />;
  if (row.mark === "failed") return <Icon name="alert" small class="fail" />;
  return <span class="when">{when(row.updatedAt, seconds)}</span>;
}

function toggleSettings(): void {
  closeLayer();
  if (place.value.view === "chat" && pane.value === "settings") openPane("");
  else showSettings();
}

function Foot(): VNode {
  const state = connection.value.kind;
  const found = facts.value;
  const words = needsKey.value
    ? "Needs a key"
    : state === "gone"
      ? "No connection"
      : state === "reconnecting"
        ? "Reconnecting"
        : found === null
          ? "Connecting"
          : found.has_keys
            ? `Connected${found.owner === "" ? "" : ` · key ${me.value?.owner ?? found.owner}`}`
            : "This machine alone";
  const tone = state === "gone" || needsKey.value ? "fail" : state === "reconnecting" ? "wait" : "ok";
  return (
    <div class="foot">
      <span class={`dot ${tone}`} />
      <span class="cut">{shown(words)}</span>
      <span class="end row tight">
        {isSignedIn.value && (
          <button type="button" class="ic sm" aria-label="Log out" title="Log out" onClick={() => void logOut()}>
            <Icon name="logout" small />
          </button>
        )}
        <button type="button" class="ic sm" aria-label={isDark.value ? "Use the light theme" : "Use the dark theme"} title="Theme" onClick={() => setTheme(isDark.value ? "light" : "dark")}>
          <Icon name={isDark.value ? "sun" : "moon"} small />
        </button>
        <button type="button" class="ic sm" aria-label="Settings" title="Settings" onClick={toggleSettings}>
          <Icon name="settings" small />
        </button>
      </span>
    </div>
  );
}
