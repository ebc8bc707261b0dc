// What stands on the rail: a round with its thinking, its words and its calls; notes, and words said into the run.
import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { changed } from "../changes";
import { useNow } from "../clock";
import { type Call, callsOf, type Note, type ReasoningPart, type Round, type RunState, type Steering, textOf } from "../fold/state";
import { wordsOf } from "../fold/turns";
import { cost, plural, seconds, sentence, tokens, until } from "../format";
import { type Cite, TextView } from "../markdown/view";
import { address } from "../router";
import { shown } from "../visible";
import { CallRow } from "./call";
import { Files } from "./file";
import { Icon, Spinner } from "./icon";

export interface RoundActions {
  retry: () => void;
  pickModel: () => void;
  branch?: (round: Round) => void;
}

interface RoundProps {
  run: RunState;
  round: Round;
  isLast: boolean;
  isLive: boolean;
  /** An answer that no run is known of needs no number. */
  isAlone: boolean;
  cite: Cite;
  actions: RoundActions;
}

export function RoundView({ run, round, isLast, isLive, isAlone, cite, actions }: RoundProps): VNode {
  changed(round);
  const waits = isLive && callsOf(round).some((call) => changed(call) >= 0 && call.phase === "waiting");
  const tone = round.failure !== null || round.interruption !== null ? "fail" : waits ? "wait" : isLive ? "live" : "";
  const head = isAlone && tone === "" ? "plain" : "";
  return (
    <section class={`round ${isLast ? "last" : ""} ${head}`} aria-label={`Round ${round.number + 1}`}>
      <span class={`knot ${tone}`} aria-hidden="true">
        {round.number + 1}
      </span>
      <Parts run={run} round={round} isLive={isLive} cite={cite} />
      {round.retry !== null && <Retry round={round} />}
      {round.refusal !== null && (
        <p class="row small t2 aside-line">
          <Icon name="ban" small /> A guardrail refused this{round.refusal.problem === "" ? "" : `: ${shown(round.refusal.problem)}`}
        </p>
      )}
      {round.isLast && run.end === null && (
        <p class="row small t3 aside-line">
          <Icon name="clock" small /> A limit was reached: the answer is made without tools
        </p>
      )}
      {round.failure !== null && <FailureCard run={run} round={round} actions={actions} />}
      {round.interruption !== null && <Interruption run={run} round={round} actions={actions} />}
    </section>
  );
}

/** In the order of the model's turn; neighbouring calls share a box. */
function Parts({ run, round, isLive, cite }: { run: RunState; round: Round; isLive: boolean; cite: Cite }): VNode {
  changed(round);
  const rows: VNode[] = [];
  const calls = callsOf(round);
  const hasSum = round.parts[0]?.kind === "reasoning";
  const isEmpty = round.parts.length === 0;
  if (isEmpty && round.isOpen && isLive) {
    rows.push(
      <div key="wait" class="sum accent">
        {round.retry === null && (
          <>
            <span>Waiting for the model</span> <Elapsed since={round.startedAt} />
          </>
        )}
      </div>,
    );
  }
  round.parts.forEach((part, at) => {
    if (part.kind === "reasoning") {
      rows.push(<Thinking key={`r${at}`} part={part} round={round} isLive={isLive && round.isOpen && !part.isDone} meta={at === 0} />);
    } else if (part.kind === "text") {
      const box = round.interruption === null ? "" : "cut-off";
      rows.push(
        <div key={`t${at}`} class={box}>
          <TextView part={part} cite={cite} hasCaret={isLive && round.isOpen} />
        </div>,
      );
    }
  });
  if (calls.length > 0) {
    rows.push(
      <div key="calls" class="calls" role="list" aria-label={plural(calls.length, "call")}>
        <CallRows calls={calls} run={run} />
      </div>,
    );
    rows.push(<Files key="files" calls={calls} />);
  }
  if (!hasSum && round.usage !== null && calls.length > 0) rows.unshift(<Meta key="meta" round={round} />);
  return <>{rows}</>;
}

const MANY = 40; // calls of one round: of more, the last are drawn

function CallRows({ calls, run }: { calls: Call[]; run: RunState }): VNode {
  const [isAll, setAll] = useState(false);
  const hidden = isAll ? 0 : Math.max(0, calls.length - MANY);
  return (
    <>
      {hidden > 0 && (
        <button type="button" class="call" data-rove tabIndex={-1} onClick={() => setAll(true)}>
          <Icon name="chevron-right" small class="k" />
          <span class="t2">{plural(hidden, "call")} before these</span>
        </button>
      )}
      {calls.slice(hidden).map((call) => (
        <CallRow key={call.index} call={call} run={run} />
      ))}
    </>
  );
}

function Meta({ round }: { round: Round }): VNode | null {
  const text = costLine(round);
  return text === "" ? null : <div class="meta small t3 num">{text}</div>;
}

export function costLine(round: Round): string {
  const usage = round.usage;
  if (usage === null) return "";
  const count = (usage.input ?? 0) + (usage.output ?? 0);
  const parts = count === 0 ? [] : [`${tokens(count)} tok`];
  if (usage.cost) parts.push(cost(usage.cost));
  return parts.join(" · ");
}

/** Thinking: open while it comes, three lines of it; then one line that can be opened. */
function Thinking({ part, round, isLive, meta }: { part: ReasoningPart; round: Round; isLive: boolean; meta: boolean }): VNode {
  changed(part);
  changed(round);
  const [isOpen, setOpen] = useState(false);
  const hasText = textOf(round) !== "";
  const length = round.finishedAt > 0 && round.startedAt > 0 && !hasText ? round.finishedAt - round.startedAt : 0;
  const first = part.text.trimStart().split("\n")[0] ?? "";
  const text = shown(part.text.trim());
  return (
    <>
      <div class="sum">
        <button type="button" class="fold" aria-expanded={isOpen || isLive} data-rove tabIndex={-1} onClick={() => setOpen(!isOpen)}>
          <Icon name={isOpen || isLive ? "chevron-down" : "chevron-right"} small />
          <span class={isLive ? "accent" : ""}>{isLive ? "Thinking" : length >= 0.95 ? `Thought for ${Math.round(length)} s` : "Thought"}</span>
          {isLive && <Elapsed since={round.startedAt} />}
          {!isOpen && !isLive && first !== "" && <span class="t3 cut">— {shown(first)}</span>}
        </button>
        {meta && <span class="end t3 small num">{costLine(round)}</span>}
      </div>
      {isLive && !isOpen && (
        <div class="thought live">
          <div>{text}</div>
        </div>
      )}
      {isOpen && <div class="thought">{text}</div>}
    </>
  );
}

export function Elapsed({ since }: { since: number }): VNode {
  const passed = Math.max(0, useNow() - since);
  return <span class="t3 small num">{since <= 0 ? "" : passed < 60 ? `${Math.floor(passed)} s` : seconds(passed)}</span>;
}

function Retry({ round }: { round: Round }): VNode | null {
  changed(round);
  const time = useNow();
  const retry = round.retry;
  if (retry === null) return null;
  const left = retry.until - time;
  return (
    <div class="sum wait">
      <Spinner tone="wait" />
      <span>
        {left > 0 ? `Again in ${until(left)}` : "Again now"}, try {retry.attempt} of {retry.tries}
      </span>
      <span class="t3 cut">— {shown(retry.reason)}</span>
    </div>
  );
}

function FailureCard({ run, round, actions }: { run: RunState; round: Round; actions: RoundActions }): VNode | null {
  const failure = round.failure;
  if (failure === null) return null;
  const before = [...run.calls.values()].filter((call) => call.phase === "done").length;
  const took = failure.at > 0 && round.startedAt > 0 ? seconds(failure.at - round.startedAt) : "";
  const facts = [failure.status === null ? "" : String(failure.status), plural(failure.tries, "try", "tries"), took].filter((one) => one !== "");
  return (
    <div class="prob" role="group" aria-label="Error">
      <header>
        <Icon name="alert" small class="fail" />
        <span class="strong">{failure.tooLong ? "The conversation is too long for this model" : sentence(shown(failure.reason))}</span>
        <span class="end small t2 num">{facts.join(" · ")}</span>
      </header>
      <p class="t2">
        Nothing of the answer was lost.{before > 0 ? ` ${before === 1 ? "The call" : `The ${before} calls`} before it ${before === 1 ? "keeps its result" : "keep their results"}.` : ""}
      </p>
      <div class="do">
        <button type="button" class="btn sm ink" onClick={actions.retry}>
          <Icon name="retry" small /> Try again
        </button>
        <button type="button" class="btn sm" onClick={actions.pickModel}>
          Other model…
        </button>
        {run.id !== "" && (
          <a class="btn sm quiet" href={address("runs", run.id, { tab: "request" })}>
            What was sent
          </a>
        )}
      </div>
    </div>
  );
}

function Interruption({ run, round, actions }: { run: RunState; round: Round; actions: RoundActions }): VNode | null {
  if (round.interruption === null) return null;
  return (
    <div class="broke">
      <div class="row small">
        <span class="pill fail">
          <Icon name="alert" small /> Incomplete
        </span>
        <span class="t2">{sentence(shown(round.interruption.reason))}.</span>
      </div>
      <div class="row">
        <button type="button" class="btn sm ink" onClick={actions.retry}>
          <Icon name="retry" small /> Ask again
        </button>
        {run.id !== "" && actions.branch !== undefined && (
          <button type="button" class="btn sm" onClick={() => actions.branch?.(round)}>
            <Icon name="branch" small /> Branch here
          </button>
        )}
      </div>
    </div>
  );
}

export function NoteView({ note }: { note: Note }): VNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <div class="note small t3">
      {note.more === "" ? (
        <span>{shown(note.text)}</span>
      ) : (
        <button type="button" class="fold" aria-expanded={isOpen} data-rove tabIndex={-1} onClick={() => setOpen(!isOpen)}>
          <Icon name={isOpen ? "chevron-down" : "chevron-right"} small /> {shown(note.text)}
        </button>
      )}
      {isOpen && <div class="thought">{shown(note.more)}</div>}
    </div>
  );
}

export function SteeringView({ steering }: { steering: Steering }): VNode {
  const words = useMemo(() => wordsOf(steering.turn), [steering]);
  return (
    <div class="said steered">
      <p dir="auto">{shown(words)}</p>
    </div>
  );
}
