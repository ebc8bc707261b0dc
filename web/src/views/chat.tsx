// Chat: the bar, the talk with its dock, and the pane. A new session is a place to write.
import { computed, effect, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { changed } from "../changes";
import { type RunState, answerOf, callsOf, lastRound, phaseOf } from "../fold/state";
import { wordsOf } from "../fold/turns";
import { firstWords, plural, spent, tokens } from "../format";
import { address } from "../router";
import { attach } from "../store/composer";
import { facts, modelName } from "../store/server";
import { placeWords, useQueuePlace } from "../store/queued";
import { branches, entries, isLoading, live, loadProblem, lookAgain, rename, sessionId, settings, title } from "../store/session";
import { connection } from "../stream";
import { labelOf } from "../tools";
import { shown } from "../visible";
import { open } from "../store/approval";
import { ApprovalCard } from "./approval";
import { Banner } from "./banner";
import { Composer } from "./composer";
import { Details } from "./details";
import { talkProblem } from "./exchange";
import { Icon, Spinner } from "./icon";
import { openLayer, openPane, pane, togglePane } from "./panes";
import { SettingsPane } from "./settings";
import { Talk } from "./talk";
import { Welcome } from "./welcome";

export const isPhone = signal(matchMedia("(max-width: 599px)").matches);
matchMedia("(max-width: 599px)").addEventListener("change", (event) => {
  isPhone.value = event.matches;
});

export function Chat(): VNode {
  const isNew = sessionId.value === "";
  const beside = isNew && pane.value === "details" ? "" : pane.value; // of nothing there are no details
  const [isOver, setOver] = useState(false);
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    attach(event.dataTransfer?.files ?? []);
  };
  const over = (event: DragEvent) => {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
    event.preventDefault();
    setOver(true);
  };
  return (
    <>
      <Bar />
      <Banner />
      <div class={beside === "" ? "chat no-pane" : "chat"} onDragOver={over} onDragLeave={() => setOver(false)} onDrop={drop}>
        {isNew ? (
          <div class="talk">
            <Welcome />
          </div>
        ) : (
          <div class="talk">
            {loadProblem.value !== null && entries.value.length === 0 ? <Missing /> : <Talk />}
            <Dock />
          </div>
        )}
        {beside !== "" && (
          <aside class="pane" tabIndex={0} aria-label={beside === "details" ? "Details" : "Settings of this session"}>
            {beside === "details" ? (
              <>
                <button type="button" class="ic sm drawer-x" aria-label="Close the details" onClick={() => openPane("")}>
                  <Icon name="x" small />
                </button>
                <Details />
              </>
            ) : (
              <SettingsPane />
            )}
          </aside>
        )}
        {isOver && (
          <div class="drop" aria-hidden="true">
            <span>Drop files to attach them</span>
          </div>
        )}
      </div>
    </>
  );
}

function Missing(): VNode {
  const problem = loadProblem.value;
  const isGone = problem?.status === 404;
  return (
    <div class="none big">
      <span class="ico">
        <Icon name={isGone ? "search" : "plug"} />
      </span>
      <b class="strong">{isGone ? "There is no such session" : "The session could not be read"}</b>
      <p>{shown(problem?.message ?? "")}</p>
      {isGone ? (
        <a class="btn sm" href={address("chat")}>
          New session
        </a>
      ) : (
        <button type="button" class="btn sm" onClick={() => void lookAgain(sessionId.value)}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Approval before composer: what needs a person is never scrolled away. On a phone it is a sheet over the page. */
function Dock(): VNode {
  const asks = open.value !== null;
  return (
    <>
      {asks && isPhone.value && <div class="veil" />}
      <div class={asks && !isPhone.value ? "dock" : "dock bare"}>
        {talkProblem.value !== "" && (
          <p class="small fail reason" role="alert">
            {shown(talkProblem.value)}
          </p>
        )}
        {asks && !isPhone.value && <ApprovalCard isSheet={false} />}
        <Composer key={sessionId.value} />
      </div>
      {asks && isPhone.value && <ApprovalCard isSheet />}
    </>
  );
}

function Bar(): VNode {
  const last = entries.value.at(-1);
  if (last !== undefined) changed(last);
  const run = last?.run ?? null;
  if (run !== null) changed(run);
  const isNew = sessionId.value === "";
  const name = isNew ? "New session" : title.value || firstWords(wordsOf(entries.value[0]?.run.question ?? null)) || (isLoading.value ? "…" : sessionId.value);
  const count = branches.value.length;
  const head = branches.value.findIndex((one) => one.is_head);
  return (
    <div class="bar">
      <button type="button" class="ic only-phone" aria-label="Sessions and views" onClick={() => openLayer("sidebar")}>
        <Icon name="menu" />
      </button>
      <div class="bar-title">
        <Title name={name} isFixed={isNew} />
        {run !== null && <PhoneLine run={run} />}
      </div>
      {count > 1 && (
        <span class="pill wide">
          <Icon name="branch" small /> Branch {head + 1} of {count}
        </span>
      )}
      <span class="end row bar-facts">
        {isNew ? <Ready /> : run !== null && <RunFacts run={run} />}
        {!isNew && run !== null && run.id !== "" && run.startedAt > 0 && (
          <>
            <a class="btn sm hide-phone" href={address("runs", run.id)}>
              <Icon name="runs" small /> Open run
            </a>
            <a class="ic only-phone" aria-label="Open run" href={address("runs", run.id)}>
              <Icon name="runs" />
            </a>
          </>
        )}
        {!isNew && (
          <button type="button" class={pane.value === "details" ? "ic on" : "ic"} aria-label="Details" title="Details" aria-expanded={pane.value === "details"} onClick={() => togglePane("details")}>
            <Icon name="panel" />
          </button>
        )}
      </span>
    </div>
  );
}

function Ready(): VNode | null {
  if (modelName.value === "") return null;
  const isUp = connection.value.kind !== "gone";
  return (
    <span class="pill hide-phone">
      <span class={isUp ? "dot ok" : "dot fail"} />
      {shown(modelName.value.replace(/^[\w-]+:/, ""))} · {isUp ? "ready" : "away"}
    </span>
  );
}

function Title({ name, isFixed }: { name: string; isFixed: boolean }): VNode {
  const [draft, setDraft] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => field.current?.select(), [draft === null]);
  const keep = () => {
    const text = draft?.trim() ?? "";
    setDraft(null);
    if (text !== "" && text !== name) void rename(text);
  };
  if (draft !== null) {
    return (
      <input
        ref={field}
        class="rename"
        aria-label="Name of the session"
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onBlur={keep}
        onKeyDown={(event) => {
          if (event.key !== "Enter" && event.key !== "Escape") return;
          event.stopPropagation();
          if (event.key === "Enter") keep();
          else setDraft(null);
          requestAnimationFrame(() => opener.current?.focus());
        }}
      />
    );
  }
  return (
    <>
      <h1 class="cut">{shown(name)}</h1>
      {!isFixed && (
        <button ref={opener} type="button" class="ic sm hide-phone" aria-label="Rename the session" title="Rename" onClick={() => setDraft(name)}>
          <Icon name="edit" small />
        </button>
      )}
    </>
  );
}

function RunFacts({ run }: { run: RunState }): VNode {
  changed(run);
  const phase = phaseOf(run);
  const most = settings.value.rounds ?? facts.value?.rounds ?? 0;
  const all = run.usage.input + run.usage.output;
  return (
    <span class="row small t2 num hide-phone facts">
      <StatePill run={run} />
      {phase !== "finished" && run.usage.rounds > 0 && <span>round {run.usage.rounds}{most > 0 ? ` of ${most}` : ""}</span>}
      {phase === "finished" && run.usage.rounds > 1 && <span>{plural(run.usage.rounds, "round")}</span>}
      {all > 0 && <span>{tokens(all)} tokens</span>}
      {spent(run.usage) !== "" && <span>{spent(run.usage)}</span>}
    </span>
  );
}

function StatePill({ run }: { run: RunState }): VNode | null {
  changed(run);
  const place = useQueuePlace(run);
  if (place !== null) return <span class="pill">In the queue · {placeWords(place)}</span>;
  switch (phaseOf(run)) {
    case "queued":
      return <span class="pill">In the queue</span>;
    case "running":
      return (
        <span class="pill accent">
          <Spinner /> Running
        </span>
      );
    case "waiting":
      return (
        <span class="pill wait">
          <span class="dot wait" /> Waits for you
        </span>
      );
    case "finished":
      return run.end?.reason === "failed" ? (
        <span class="pill fail">
          <Icon name="alert" small /> Failed
        </span>
      ) : null;
  }
}

function PhoneLine({ run }: { run: RunState }): VNode {
  changed(run);
  const phase = phaseOf(run);
  const all = run.usage.input + run.usage.output;
  const words = [`round ${run.usage.rounds}`, all > 0 ? `${tokens(all)} tokens` : "", spent(run.usage)];
  if (phase === "waiting") return <span class="small wait num only-phone">waits for you · round {run.usage.rounds}</span>;
  return <span class="small t3 num only-phone">{words.filter((one) => one !== "").join(" · ")}</span>;
}

const told = computed(() => {
  const run = live.value;
  if (run === null) return "";
  changed(run);
  const round = lastRound(run);
  if (round === null) return "The run has begun";
  changed(round);
  if (phaseOf(run) === "waiting") return `Round ${round.number + 1} waits for you`;
  const calls = callsOf(round).filter((call) => call.phase === "running");
  if (calls.length > 0) return `Round ${round.number + 1} calls ${[...new Set(calls.map((call) => labelOf(call.name)))].join(", ")}`;
  if (round.failure !== null) return "The model failed";
  return round.isOpen ? `Round ${round.number + 1}, the model answers` : "";
});

/** What a screen reader hears of the run, and what the tab says. */
export function startTelling(): void {
  let last: RunState | null = null;
  effect(() => {
    const run = live.value;
    if (run === null && last !== null) {
      const words = answerOf(last).split(/\s+/).filter((word) => word !== "").length;
      const reason = last.end?.reason;
      announce(reason === "cancelled" ? "Stopped" : reason === "failed" ? "The run failed" : `Answer complete, ${plural(words, "word")}`);
    }
    last = run;
  });
  effect(() => {
    if (told.value !== "") announce(told.value);
  });
  effect(() => {
    const state = connection.value.kind;
    if (state === "reconnecting" || state === "gone") announce("Connection lost");
    else if (state === "back") announce("Connected again");
  });
}
