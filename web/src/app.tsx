// The frame: sidebar or rail, the view of the address, layers over it, and the regions that a screen reader hears.
import { effect, untracked } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { assertive, polite } from "./announce";
import { place } from "./router";
import { entries, live, openSession, sessionId, title } from "./store/session";
import { openDraft } from "./store/composer";
import { approvals } from "./store/sessions";
import { changed } from "./changes";
import { phaseOf } from "./fold/state";
import { shown } from "./visible";
import { Chat, isPhone } from "./views/chat";
import { PreviewDialog } from "./views/file";
import { Login } from "./views/login";
import { needsKey } from "./store/server";
import { Finder } from "./views/finder";
import { Keys } from "./views/keys";
import { lazy } from "./views/lazy";
import { closeLayer, layer } from "./views/panes";
import { Picker } from "./views/picker";
import { PhoneTabs, Rail, Sidebar, VIEWS, isNarrow } from "./views/sidebar";

const Build = lazy(() => import("./build").then((chunk) => chunk.BuildView));
const Operate = lazy(() => import("./operate").then((chunk) => chunk.OperateView));
const WillBeSent = lazy(() => import("./views/will-be-sent").then((chunk) => chunk.WillBeSent));
const Runs = lazy(() => import("./runs").then((chunk) => chunk.RunsView));

/** Views that need the room: they stand beside the rail at every width. */
function needsRoom(): boolean {
  const { view, id } = place.value;
  return view === "build" || (view === "runs" && id !== "");
}

export function App(): VNode {
  const view = place.value.view;
  const inTalk = view === "chat" && (sessionId.value !== "" || entries.value.length > 0);
  return (
    <div class={isNarrow.value || needsRoom() ? "app rail" : "app"}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <div class="side-wide">
        <Sidebar />
      </div>
      <div class="side-rail">
        <Rail />
      </div>
      <main id="main" class="main" tabIndex={-1}>
        {view === "chat" ? <Chat /> : view === "runs" ? <Runs /> : view === "build" ? <Build /> : <Operate />}
      </main>
      {isPhone.value && !inTalk && <PhoneTabs />}
      {needsKey.value ? <Login /> : <Layers />}
      <div class="vh" role="status" aria-live="polite">
        {polite.value}
      </div>
      <div class="vh" role="alert" aria-live="assertive">
        {assertive.value}
      </div>
    </div>
  );
}

function Layers(): VNode | null {
  switch (layer.value) {
    case "finder":
      return <Finder />;
    case "keys":
      return <Keys />;
    case "picker":
      return <Picker />;
    case "preview":
      return <PreviewDialog />;
    case "sent":
      return <WillBeSent />;
    case "sidebar":
      return <SidebarSheet />;
    default:
      return null;
  }
}

function SidebarSheet(): VNode {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} class="side-sheet" aria-label="Sessions and views" onClose={closeLayer} onClick={(event) => event.target === box.current && box.current?.close()}>
      <Sidebar />
    </dialog>
  );
}

/** The address says which session is open; the tab says how it stands. */
export function startApp(): void {
  effect(() => {
    const { view, id, query } = place.value;
    if (view !== "chat") return;
    untracked(() => {
      const isOther = id !== sessionId.value;
      void openSession(id, query.get("branch"));
      if (isOther || id === "") openDraft(id);
    });
  });
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  effect(() => {
    const waits = approvals.value.length;
    const { view } = place.value;
    const name = view === "chat" ? title.value || "New session" : (VIEWS.find((one) => one.view === view)?.name ?? "");
    document.title = shown(`${waits > 0 ? `(${waits}) ` : ""}${name} · Ronda`);
    const run = live.value ?? entries.value.at(-1)?.run ?? null;
    if (run !== null) changed(run);
    const phase = run === null ? "" : phaseOf(run);
    const state = waits > 0 || phase === "waiting" ? "wait" : phase === "running" || phase === "queued" ? "live" : run?.end?.reason === "failed" ? "fail" : "rest";
    const address = icon?.href.replace(/mark-\w+\.svg$/, `mark-${state}.svg`);
    if (icon !== null && address !== undefined && icon.href !== address) icon.href = address;
  });
}
