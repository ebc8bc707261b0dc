// One exchange: what a person said, the rounds that answer it, how it ended, and what can be done with it.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api";
import { changed } from "../changes";
import { type Round, type RunState, type Step, answerOf, callsOf, lastRound, roundsOf } from "../fold/state";
import { wordsOf } from "../fold/turns";
import { plural, seconds, sentence, spent } from "../format";
import { address, go } from "../router";
import { facts } from "../store/server";
import type { Entry } from "../store/history";
import { branchAt, branches, change, live, say, sessionId, showBranch } from "../store/session";
import { shown } from "../visible";
import { Copy } from "./code";
import { fileIcon } from "./file";
import { Icon } from "./icon";
import { openLayer, openPane } from "./panes";
import { NoteView, RoundView, SteeringView } from "./round";
import { citer, runs, sourcesIn } from "./sources";

const NEWEST = 8; // rounds of a long run that are drawn; those before them are folded

export const talkProblem = signal("");

export function Attached({ run, limit = 99 }: { run: RunState; limit?: number }): VNode {
  const parts = (run.question?.parts ?? []).filter((part) => part.type === "file" || part.type === "image");
  return (
    <>
      {parts.slice(0, limit).map((part, at) =>
        part.type === "file" ? (
          <span key={at} class="chip">
            <Icon name={fileIcon(part.name)} small />
            <b class="cut">{shown(part.name ?? "file")}</b>
          </span>
        ) : part.type === "image" && part.url.startsWith("data:image/") ? (
          <img key={at} class="attached" src={part.url} alt="Attached picture" />
        ) : null,
      )}
    </>
  );
}

export function Exchange({ entry, isLast }: { entry: Entry; isLast: boolean }): VNode {
  changed(entry);
  const run = entry.run;
  changed(run);
  const sourceCount = sourcesIn(runs.value).length;
  const cite = useMemo(() => citer(run), [run, sourceCount]);
  const rounds = roundsOf(run);
  const last = lastRound(run);
  // A conversation that was put here has answers without a run behind them: nothing to number.
  const isAlone = run.id === "" && rounds.length === 1 && run.calls.size === 0;
  const again = useMemo(() => () => void tryBranch(entry, wordsOf(entry.run.question)), [entry]);
  const actions = useMemo(() => ({ retry: again, pickModel: () => openLayer("picker"), branch: (round: Round) => void forkAt(entry.run, round) }), [again]);
  const [isWhole, setWhole] = useState(false);
  const hidden = isWhole ? 0 : Math.max(0, run.steps.length - NEWEST);
  return (
    <>
      {run.question !== null && <Said entry={entry} />}
      {run.startedAt === 0 && run.end === null && <p class="sum t3">In the queue</p>}
      {hidden > 0 && (
        <div class="note">
          <button type="button" class="fold t2" aria-expanded={false} data-rove tabIndex={-1} onClick={() => setWhole(true)}>
            <Icon name="chevron-right" small /> {earlier(run, hidden)}
          </button>
        </div>
      )}
      {run.steps.map((step, at) =>
        at < hidden ? null : step.kind === "round" ? (
          <RoundView key={at} run={run} round={step} isLast={step === last} isLive={run.end === null && step === last} isAlone={isAlone} cite={cite} actions={actions} />
        ) : step.kind === "note" ? (
          isTold(run.steps[at - 1], step.text) ? null : <NoteView key={at} note={step} />
        ) : (
          <SteeringView key={at} steering={step} />
        ),
      )}
      {run.end !== null && <Ending entry={entry} isAlone={isAlone} again={again} isLast={isLast} />}
    </>
  );
}

/** Whether a note says what the round before it shows already. */
function isTold(before: Step | undefined, text: string): boolean {
  return before?.kind === "round" && before.interruption !== null && text.endsWith(before.interruption.reason);
}

/** Older rounds of a long run, in one line. */
function earlier(run: RunState, count: number): string {
  const rounds = run.steps.slice(0, count).filter((step) => step.kind === "round");
  const calls = rounds.reduce((sum, round) => sum + callsOf(round).length, 0);
  return `${plural(rounds.length, "earlier round")}${calls > 0 ? ` · ${plural(calls, "call")}` : ""}`;
}

async function tryBranch(entry: Entry, text: string): Promise<void> {
  talkProblem.value = "";
  try {
    await branchAt(entry, text);
  } catch (error) {
    talkProblem.value = error instanceof Error ? error.message : String(error);
  }
}

async function forkAt(run: RunState, round: Round): Promise<void> {
  try {
    const made = await api.fork(sessionId.value, run.id, round.number);
    go(address("chat", made.id));
  } catch (error) {
    talkProblem.value = error instanceof Error ? error.message : String(error);
  }
}

/** What a person said. It can be edited: then the conversation branches here. */
function Said({ entry }: { entry: Entry }): VNode {
  changed(entry);
  const words = wordsOf(entry.run.question);
  const [draft, setDraft] = useState<string | null>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const leave = () => {
    setDraft(null);
    requestAnimationFrame(() => opener.current?.focus());
  };
  useLayoutEffect(() => {
    const element = area.current;
    if (element !== null && document.activeElement !== element) {
      element.focus();
      element.setSelectionRange(element.value.length, element.value.length);
    }
  }, [draft === null]);
  const send = () => {
    if (draft === null || draft.trim() === "") return;
    setDraft(null);
    void tryBranch(entry, draft.trim());
    document.getElementById("composer")?.focus();
  };
  if (draft !== null) {
    return (
      <div class="said editing">
        <textarea
          ref={area}
          aria-label="Edit your message"
          value={draft}
          rows={Math.min(12, draft.split("\n").length + 1)}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") {
              event.stopPropagation();
              leave();
            } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
              event.preventDefault();
              send();
            }
          }}
        />
        <div class="row">
          <span class="small t3 grow">The conversation branches here. What followed stays as a branch.</span>
          <button type="button" class="btn sm quiet" onClick={leave}>
            Back <kbd>Esc</kbd>
          </button>
          <button type="button" class="btn sm ink" onClick={send}>
            Ask
          </button>
        </div>
      </div>
    );
  }
  return (
    <div class="said">
      <div class="said-row">
        <span class="acts-of">
          <button ref={opener} type="button" class="ic sm" aria-label="Edit this message" title="Edit" disabled={live.value !== null} data-edit onClick={() => setDraft(words)}>
            <Icon name="edit" small />
          </button>
          <Copy text={words} label="Copy this message" />
        </span>
        <p dir="auto" data-rove tabIndex={-1}>
          {shown(words)}
        </p>
      </div>
      <div class="row attachments">
        <Attached run={entry.run} />
      </div>
    </div>
  );
}

/** How a run ended, where that is not simply an answer; and what can be done with the answer. */
function Ending({ entry, isAlone, again, isLast }: { entry: Entry; isAlone: boolean; again: () => void; isLast: boolean }): VNode | null {
  changed(entry);
  const { run } = entry;
  const end = run.end;
  if (end === null) return null;
  const last = lastRound(run);
  const isTold = last?.failure != null || last?.interruption != null;
  const took = run.startedAt > 0 && end.at ? end.at - run.startedAt : 0;
  const facts = [took > 0 ? seconds(took) : "", spent(run.usage)].filter((one) => one !== "");
  const text = answerOf(run);
  return (
    <div class={isAlone ? "ending plain" : "ending"}>
      {end.answer && <p class="say">{shown(end.answer)}</p>}
      {end.limit != null && <Limit run={run} />}
      {end.reason === "cancelled" && (
        <div class="row small">
          <span class="pill">
            <Icon name="ban" small /> Stopped
          </span>
          <span class="t2">What came before it stays in the session.</span>
        </div>
      )}
      {end.reason === "length" && (
        <div class="row small">
          <span class="pill wait">
            <Icon name="clock" small /> Cut off
          </span>
          <span class="t2">The answer reached its limit of tokens.</span>
        </div>
      )}
      {(end.reason === "failed" || end.reason === "interrupted") && !isTold && (
        <div class="prob" role="group" aria-label="Error">
          <header>
            <Icon name="alert" small class="fail" />
            <span class="strong">{shown(end.message ?? "The run failed")}</span>
          </header>
          <div class="do">
            <button type="button" class="btn sm ink" onClick={again}>
              <Icon name="retry" small /> Try again
            </button>
          </div>
        </div>
      )}
      <div class={isLast ? "acts-of answer always" : "acts-of answer"}>
        {text !== "" && <Copy text={text} label="Copy the answer" />}
        <button type="button" class="ic sm" aria-label="Ask again" title="Ask again" disabled={live.value !== null} onClick={again}>
          <Icon name="retry" small />
        </button>
        {run.id !== "" && last !== null && (
          <button type="button" class="ic sm" aria-label="Branch from here" title="Branch from here: a new session" onClick={() => void forkAt(run, last)}>
            <Icon name="branch" small />
          </button>
        )}
        {run.id !== "" && (
          <a class="ic sm" aria-label="Open the run" title="Open the run" href={address("runs", run.id)}>
            <Icon name="runs" small />
          </a>
        )}
        <span class="small t3 num">{facts.join(" · ")}</span>
        {isLast && <BranchWalk />}
      </div>
    </div>
  );
}

const LIMITS: Record<string, string> = {
  max_tool_rounds: "rounds",
  max_tool_calls: "calls",
  max_tokens: "tokens",
  max_seconds: "of time",
  repeated_call: "of the same call again",
  unknown_tool: "of calls for tools that are not there",
  unreadable_calls: "of calls that cannot be read",
};

function Limit({ run }: { run: RunState }): VNode {
  const isRounds = run.end?.limit === "max_tool_rounds";
  const hasLast = lastRound(run)?.isLast === true; // one more round, for an answer without tools
  const rounds = Math.max(1, run.usage.rounds - Number(hasLast));
  const words = isRounds ? `${rounds} of ${rounds} rounds` : `A limit ${LIMITS[run.end?.limit ?? ""] ?? ""}`;
  return (
    <>
      <div class="row small">
        <span class="pill wait">
          <Icon name="clock" small /> {words}
        </span>
        <span class="t2">{hasLast ? "The last answer was made without tools." : sentence(shown(run.end?.message ?? "")) || "The run ended there."}</span>
      </div>
      <div class="row">
        <button type="button" class="btn sm ink" disabled={live.value !== null} onClick={() => void say("Continue.", [])}>
          {isRounds ? `Continue with ${rounds} more` : "Continue"}
        </button>
        {isRounds && (
          <button
            type="button"
            class="btn sm"
            onClick={() => {
              change({ rounds: Math.min(facts.value?.max_rounds || rounds * 2, rounds * 2) });
              openPane("settings");
            }}
          >
            Change the limit…
          </button>
        )}
      </div>
    </>
  );
}

/** Other ways that the conversation went: "2 of 3", and the way between them. */
export function BranchWalk(): VNode | null {
  const all = branches.value;
  if (all.length < 2) return null;
  const at = Math.max(0, all.findIndex((one) => one.is_head));
  const show = (to: number) => {
    const branch = all[to];
    if (branch !== undefined) void showBranch(branch.id);
  };
  return (
    <span class="row small t2 end walk">
      <button type="button" class="ic sm" aria-label="The branch before" disabled={at === 0 || live.value !== null} onClick={() => show(at - 1)}>
        <Icon name="chevron-left" small />
      </button>
      <span class="num">
        {at + 1} of {all.length}
      </span>
      <button type="button" class="ic sm" aria-label="The next branch" disabled={at === all.length - 1 || live.value !== null} onClick={() => show(at + 1)}>
        <Icon name="chevron-right" small />
      </button>
    </span>
  );
}
