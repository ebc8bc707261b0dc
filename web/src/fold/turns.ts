// Turns of a session → runs, as far as a conversation tells: questions, rounds, calls and results, without times and costs.
// What the events of a run say replaces it (`store/history`).
import type { AssistantTurn, ToolTurn, UserTurn } from "../events.gen";
import { type RunState, newCall, newRound, newRun, takeCall } from "./state";

export type Turn = UserTurn | AssistantTurn | ToolTurn;

export interface Message {
  role: string;
  content?: string | { type: string; text?: string; image_url?: { url: string }; file?: { file_id?: string; filename?: string } }[] | null;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

/** A turn with its place in the conversation, the run that said it, and its round: null for what was asked. */
export interface PlacedTurn {
  index: number;
  run: string | null;
  round: number | null;
  at: number;
  messages: Message[];
  /** Where messages do not say all of it. */
  turn?: Turn;
}

export interface Exchange {
  /** The first turn of it in the conversation. */
  start: number;
  end: number;
  run: RunState;
  /** Whose events tell more of it; null where no run answered. */
  runId: string | null;
}

/** One exchange for each question, with all that follows it. What was said into a run while it answered belongs to its exchange. */
export function exchangesOf(placed: PlacedTurn[]): Exchange[] {
  const found: Exchange[] = [];
  let current = null as Exchange | null;
  let isAnswered = false; // whether the run of the exchange has said something
  for (const { index, run: runId, round, at, messages, turn: whole } of placed) {
    const turn = whole ?? turnsOf(messages)[0];
    if (turn === undefined) continue;
    const isSteering = turn.type === "user" && isAnswered && runId !== null && current?.runId === runId;
    if (current === null || (turn.type === "user" && !isSteering)) {
      // Of the questions that one request brought, its run answers the last.
      if (current !== null && current.runId === runId) current.runId = null;
      const run = newRun("");
      run.question = turn.type === "user" ? turn : null;
      run.turnsBefore = index + (turn.type === "user" ? 1 : 0);
      run.startedAt = -1;
      run.end = { type: "run_finished", reason: "stop" };
      current = { start: index, end: index + 1, run, runId };
      isAnswered = false;
      found.push(current);
    } else if (turn.type === "user") current.run.steps.push({ kind: "steering", turn, at });
    // Asked again, a question is of one run, and its answer of another.
    if (turn.type === "assistant" && round !== null && !isAnswered) current.runId = runId;
    addTurn(current.run, turn);
    isAnswered ||= turn.type === "assistant" && round !== null;
    current.end = index + 1;
  }
  return found;
}

/** What a page from the middle of a conversation tells whole: not the run that began before it. */
export function wholeRuns(placed: PlacedTurn[]): PlacedTurn[] {
  const [first] = placed;
  if (first === undefined || first.index === 0) return placed;
  const isQuestion = (one: PlacedTurn) => one.messages[0]?.role === "user";
  const begin = first.run === null ? placed.findIndex(isQuestion) : placed.findIndex((one, at) => at > 0 && one.run !== placed[at - 1]?.run && isQuestion(one));
  return begin === -1 ? [] : placed.slice(begin);
}

function addTurn(run: RunState, turn: Turn): void {
  if (turn.type === "assistant") {
    const round = newRound(run.usage.rounds, false, 0);
    round.isOpen = false;
    round.stop = turn.stop ?? "stop";
    run.usage.rounds += 1;
    for (const part of turn.parts) {
      if (part.type === "tool_call") {
        const call = newCall(part.id, part.name, round.parts.length);
        takeCall(call, part);
        call.phase = "unrun";
        round.parts.push(call);
        run.calls.set(part.id, call);
      } else if (part.type === "reasoning") round.parts.push({ kind: "reasoning", text: part.text, isDone: true });
      else if (part.type === "text" || part.type === "refusal") {
        round.parts.push({ kind: "text", text: part.text, isRefusal: part.type === "refusal", isDone: true });
      }
    }
    run.steps.push(round);
  } else if (turn.type === "tool") {
    for (const result of turn.results) {
      const call = run.calls.get(result.call_id);
      if (call === undefined) continue;
      call.content = result.content;
      call.phase = result.failed ? "failed" : "done";
      call.attachments = (result.attachments ?? []).filter((one) => one.type === "image");
      run.usage.calls += 1;
    }
  }
}

/** Messages as Chat Completions has them → turns. */
export function turnsOf(messages: Message[]): Turn[] {
  const turns: Turn[] = [];
  for (const message of messages) {
    if (message.role === "user") turns.push({ type: "user", parts: userParts(message.content) });
    else if (message.role === "assistant") {
      const parts: AssistantTurn["parts"] = [];
      const text = plainText(message.content);
      if (text !== "") parts.push({ type: "text", text });
      for (const call of message.tool_calls ?? []) {
        parts.push({ type: "tool_call", id: call.id, name: call.function.name, arguments: call.function.arguments });
      }
      turns.push({ type: "assistant", parts });
    } else if (message.role === "tool") {
      const result = {
        type: "tool_result" as const,
        call_id: message.tool_call_id ?? "",
        content: plainText(message.content),
      };
      const last = turns.at(-1);
      if (last?.type === "tool") last.results.push(result);
      else turns.push({ type: "tool", results: [result] });
    }
  }
  return turns;
}

function plainText(content: Message["content"]): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? "").join("");
}

function userParts(content: Message["content"]): UserTurn["parts"] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return (content ?? []).flatMap((part): UserTurn["parts"] => {
    if (part.type === "text") return [{ type: "text", text: part.text ?? "" }];
    if (part.type === "image_url" && part.image_url) return [{ type: "image", url: part.image_url.url }];
    if (part.type === "file" && part.file) {
      return [{ type: "file", id: part.file.file_id ?? null, name: part.file.filename ?? null }];
    }
    return [];
  });
}

export function wordsOf(turn: UserTurn | null): string {
  return (turn?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("\n").trim();
}
