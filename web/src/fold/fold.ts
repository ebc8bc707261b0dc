// fold(run, event): a run's state after one more event. The same events give the same state, however they came: at once, one by
// one, or again after a reload. Previews write into the open round; the fact that closes them replaces what they made.
//
// `touch` hears which objects have changed, so that only they are drawn again.
import type { Answered, Checked, Ended, Finished, ModelInterrupted, Question as Asked, RunEvent } from "../events.gen";
import {
  type Call,
  type Part,
  type Round,
  type RunBudget,
  type RunState,
  callsOf,
  lastRound,
  newCall,
  newRound,
  takeCall,
} from "./state";

export type Touch = (changed: object) => void;

const MAX_PROGRESS = 64 * 1024; // characters of one call that are kept, as the server does

export function fold(run: RunState, event: RunEvent, position: string, touch: Touch = () => undefined): void {
  run.eventCount += 1;
  if (position !== "") run.position = position;
  switch (event.type) {
    case "run_started":
      run.model = event.model;
      run.session = event.session ?? "";
      run.tools = event.tools ?? [];
      run.startedAt = event.at ?? 0;
      run.turnsBefore = event.turns.length;
      run.question = event.turns.findLast((turn) => turn.type === "user") ?? null;
      touch(run);
      return;
    case "model_started": {
      closeRound(run, touch);
      const round = newRound(event.round, event.last ?? false, event.at ?? 0);
      run.steps.push(round);
      run.usage.rounds += 1;
      touch(run);
      return;
    }
    case "text_delta":
      append(run, "text", event.text, false, touch);
      return;
    case "refusal_delta":
      append(run, "text", event.text, true, touch);
      return;
    case "reasoning_delta":
      append(run, "reasoning", event.text, false, touch);
      return;
    case "call_delta":
      growCall(run, event.index, event.id, event.name, event.arguments, touch);
      return;
    case "call_preview":
    case "logprobs_delta":
      return; // what a preview of arguments adds has come with the call's own pieces
    case "tool_progressed":
      progress(run, event.call_id, event.stream ?? "", event.part ?? 0, event.text, touch);
      return;
    case "model_retried": {
      const round = lastRound(run);
      if (round === null) return;
      const until = (event.at ?? 0) + (event.wait ?? 0);
      round.retry = { attempt: event.attempt, tries: event.tries, reason: event.reason, until };
      dropPreviews(run, round);
      touch(round);
      return;
    }
    case "model_finished":
      finishModel(run, event, touch);
      run.budget = (event as { budget?: RunBudget | null }).budget ?? run.budget;
      return;
    case "model_interrupted":
      interruptModel(run, event, touch);
      return;
    case "model_failed": {
      const round = lastRound(run);
      if (round === null) return;
      dropPreviews(run, round);
      round.isOpen = false;
      round.finishedAt = event.at ?? 0;
      round.failure = {
        reason: event.reason,
        status: event.status ?? null,
        tries: event.tries ?? 1,
        at: event.at ?? 0,
        code: event.code ?? "",
        tooLong: event.too_long ?? false,
      };
      touch(round);
      touch(run);
      return;
    }
    case "tool_started": {
      const call = run.calls.get(event.call_id);
      if (call === undefined) return;
      call.phase = "running";
      call.startedAt = event.at ?? 0;
      call.child = event.child ?? "";
      touch(call);
      touch(run);
      return;
    }
    case "tool_finished":
      finishTool(run, event, touch);
      return;
    case "asked":
      ask(run, event, touch);
      return;
    case "answered":
      answer(run, event, touch);
      return;
    case "checked":
      check(run, event, touch);
      return;
    case "steered":
      run.steps.push({ kind: "steering", turn: event.turn, at: event.at ?? 0 });
      touch(run);
      return;
    case "compacted":
      note(run, "Earlier turns are summed up", event.summary, event.at, touch);
      return;
    case "warned":
      note(run, event.message, "", event.at, touch);
      return;
    case "released":
      note(run, "The server was told to end, and left the run to another", "", event.at, touch);
      return;
    case "recovered":
      for (const call of run.calls.values()) {
        if (call.phase === "running") {
          call.phase = "unknown";
          touch(call);
        }
      }
      note(run, "The server had ended. The run goes on", "", event.at, touch);
      return;
    case "run_finished": {
      closeRound(run, touch);
      run.end = event;
      run.questions = [];
      for (const call of run.calls.values()) {
        if (isOpenCall(call)) {
          call.phase = event.reason === "tool_calls" ? "unrun" : "cancelled";
          call.finishedAt = event.at ?? 0;
          touch(call);
        }
      }
      touch(run);
      return;
    }
  }
}

function isOpenCall(call: Call): boolean {
  return call.phase === "running" || call.phase === "queued" || call.phase === "arriving" || call.phase === "waiting";
}

function openRound(run: RunState): Round | null {
  const round = lastRound(run);
  return round?.isOpen ? round : null;
}

function append(run: RunState, kind: "text" | "reasoning", text: string, isRefusal: boolean, touch: Touch): void {
  const round = openRound(run);
  if (round === null) return;
  const last = round.parts.at(-1);
  if (last !== undefined && last.kind === kind) {
    last.text += text;
    touch(last);
    return;
  }
  closePart(last, touch);
  const part: Part =
    kind === "text" ? { kind, text, isRefusal, isDone: false } : { kind, text, isDone: false };
  round.parts.push(part);
  round.retry = null;
  touch(round);
}

function closePart(part: Part | undefined, touch: Touch): void {
  if (part === undefined || part.kind === "call" || part.isDone) return;
  part.isDone = true;
  touch(part);
}

function growCall(run: RunState, index: number, id: string, name: string, piece: string, touch: Touch): void {
  const round = openRound(run);
  if (round === null) return;
  const last = round.parts.at(-1);
  let call = last?.kind === "call" && last.index === index ? last : callsOf(round).find((one) => one.index === index);
  if (call === undefined) {
    closePart(last, touch);
    call = newCall(id, name, index);
    round.parts.push(call);
    round.retry = null;
    touch(round);
  }
  if (name !== "") call.name = name;
  if (id !== "" && call.id !== id) call.id = id;
  if (call.id !== "") run.calls.set(call.id, call);
  call.arguments += piece;
  touch(call);
}

function progress(run: RunState, id: string, stream: string, part: number, text: string, touch: Touch): void {
  const call = run.calls.get(id);
  if (call === undefined || call.phase !== "running") return;
  const last = call.progress.at(-1);
  if (last !== undefined && last.stream === stream && last.part === part) {
    if (last.text.length < MAX_PROGRESS) last.text += text;
  } else call.progress.push({ stream, part, text });
  touch(call);
}

/** The model's own turn stands for what previews have shown of it. Parts that say the same stay the objects that they are. */
function finishModel(run: RunState, event: Finished, touch: Touch): void {
  const round = lastRound(run);
  if (round === null) return;
  setParts(run, round, event.turn.parts, touch);
  round.usage = event.usage ?? null;
  round.stop = event.turn.stop ?? "stop";
  round.finishedAt = event.at ?? 0;
  round.isOpen = false;
  round.retry = null;
  for (const call of callsOf(round)) {
    if (call.phase === "arriving") {
      call.phase = call.problem === "" ? "queued" : "failed";
      touch(call);
    }
  }
  addUsage(run, event.usage);
  touch(round);
  touch(run);
}

function interruptModel(run: RunState, event: ModelInterrupted, touch: Touch): void {
  const round = lastRound(run);
  if (round === null) return;
  setParts(run, round, event.turn.parts, touch);
  for (const call of callsOf(round)) {
    if (call.phase !== "arriving") continue;
    call.phase = "cancelled";
    touch(call);
  }
  round.isOpen = false;
  round.finishedAt = event.at ?? 0;
  round.interruption = { reason: event.reason, at: event.at ?? 0 };
  touch(round);
  touch(run);
}

function setParts(run: RunState, round: Round, told: Finished["turn"]["parts"], touch: Touch): void {
  const shown = round.parts;
  const calls = callsOf(round);
  const parts: Part[] = [];
  let seen = 0;
  for (const one of told) {
    if (one.type === "tool_call") {
      const call = calls[seen] ?? newCall(one.id, one.name, seen);
      if (call.id !== one.id) run.calls.delete(call.id);
      call.id = one.id;
      call.index = seen;
      seen += 1;
      takeCall(call, one);
      run.calls.set(one.id, call);
      parts.push(call);
      touch(call);
    } else if (one.type === "text" || one.type === "refusal" || one.type === "reasoning") {
      const kind = one.type === "reasoning" ? "reasoning" : "text";
      const known = shown.find((part) => part.kind === kind && !parts.includes(part));
      if (known !== undefined && known.kind !== "call") {
        known.text = one.text;
        known.isDone = true;
        parts.push(known);
        touch(known);
      } else if (one.text !== "") {
        parts.push(
          kind === "text"
            ? { kind, text: one.text, isRefusal: one.type === "refusal", isDone: true }
            : { kind, text: one.text, isDone: true },
        );
      }
    }
  }
  for (const call of calls.slice(seen)) run.calls.delete(call.id);
  round.parts = parts;
}

function dropPreviews(run: RunState, round: Round): void {
  for (const call of callsOf(round)) run.calls.delete(call.id);
  round.parts = [];
}

/** A call that no tool answered before the next model call was never one of a tool's: the model has been told so. */
function closeRound(run: RunState, touch: Touch): void {
  const round = lastRound(run);
  if (round === null) return;
  for (const part of round.parts) closePart(part, touch);
  if (round.isOpen) {
    round.isOpen = false;
    touch(round);
  }
  for (const call of callsOf(round)) {
    if (call.phase !== "queued") continue;
    call.phase = run.tools.includes(call.name) ? "cancelled" : "unrun";
    touch(call);
  }
}

function finishTool(run: RunState, event: Ended, touch: Touch): void {
  const call = run.calls.get(event.result.call_id);
  if (call === undefined) return;
  const { result } = event;
  call.content = result.content;
  call.whole = result.whole ?? "";
  call.attachments = (result.attachments ?? []).filter((one) => one.type === "image");
  call.details = event.details ?? null;
  call.files = event.files ?? [];
  call.progress = [];
  call.finishedAt = event.at ?? 0;
  if (call.phase !== "denied" && call.phase !== "expired") {
    const isUnknown = call.phase === "unknown" && result.failed;
    call.phase = isUnknown ? "unknown" : result.failed ? "failed" : "done";
  }
  run.usage.calls += 1;
  addUsage(run, event.usage);
  touch(call);
  touch(run);
}

function ask(run: RunState, event: Asked, touch: Touch): void {
  run.questions.push({
    id: event.id,
    callId: event.call_id,
    kind: event.kind,
    tool: event.tool ?? "",
    arguments: event.arguments ?? "{}",
    schema: event.schema ?? null,
    parameters: event.parameters ?? null,
    message: event.message ?? "",
    expiresAt: event.expires_at ?? 0,
    at: event.at ?? 0,
    child: event.child ?? "",
  });
  const call = run.calls.get(event.call_id);
  if (call !== undefined && event.kind === "approval" && event.child === undefined) {
    call.phase = "waiting";
    call.askedAt = event.at ?? 0;
    touch(call);
  }
  touch(run);
}

function answer(run: RunState, event: Answered, touch: Touch): void {
  const question = run.questions.find((one) => one.id === event.id);
  run.questions = run.questions.filter((one) => one.id !== event.id);
  touch(run);
  const call = question === undefined ? undefined : run.calls.get(question.callId);
  if (question === undefined || call === undefined) return;
  touch(call);
  if (question.kind !== "approval" || question.child !== "") return;
  call.answer = {
    by: event.by ?? "",
    message: event.message ?? "",
    remember: event.remember ?? false,
    askedAt: question.at,
    at: event.at ?? 0,
  };
  if (event.decision === "approve") {
    call.phase = "queued";
    call.changed = event.arguments ?? null;
  } else {
    call.phase = event.decision === "deny" ? "denied" : "expired";
    call.content = denial(event);
  }
}

/** What the model reads of a call that was not approved: no event says it, since no tool has answered. */
function denial(answer: Answered): string {
  const text = answer.decision === "expired" ? "no person approved it in time" : "it was not approved";
  const why = answer.message ? `: ${answer.message.replace(/\.$/, "")}` : "";
  return `Error: not run: ${text}${why}.`;
}

function check(run: RunState, event: Checked, touch: Touch): void {
  if (event.allowed !== false) return;
  const round = lastRound(run);
  const problem = event.problem ?? "";
  const call = event.call_id == null ? undefined : run.calls.get(event.call_id);
  if (call !== undefined) {
    call.problem = problem || "a guardrail refused this call";
    touch(call);
  } else if (round !== null) {
    round.refusal = { stage: event.stage ?? "format", problem };
    touch(round);
  } else note(run, `A guardrail refused this: ${problem}`, "", event.at, touch);
}

function note(run: RunState, text: string, more: string, at: number | undefined, touch: Touch): void {
  run.steps.push({ kind: "note", text, more, at: at ?? 0 });
  touch(run);
}

function addUsage(run: RunState, usage: Finished["usage"]): void {
  if (usage === undefined) return;
  run.usage.input += usage.input ?? 0;
  run.usage.output += usage.output ?? 0;
  run.usage.cached += usage.cached ?? 0;
  run.usage.reasoning += usage.reasoning ?? 0;
  run.usage.cost += usage.cost ?? 0;
  if (usage.cost == null && (usage.input ?? 0) + (usage.output ?? 0) > 0) run.usage.isUnpriced = true;
}
