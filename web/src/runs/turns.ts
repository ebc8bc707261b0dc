// Events of a run → the conversation as it stood before one of its rounds, as messages of Chat Completions.
import type { AssistantTurn, RunEvent, ToolResult, UserTurn } from "../events.gen";

export interface SpokenMessage {
  role: "user" | "assistant" | "tool";
  content: string | object[] | null;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

/** What the model of this round (from 0) was told: all that was said before it, with the results of its calls in their order. */
export function spokenBefore(events: readonly RunEvent[], round: number): SpokenMessage[] {
  const said: SpokenMessage[] = [];
  let results = new Map<string, ToolResult>();
  let last: AssistantTurn | null = null;
  const settle = () => {
    for (const part of last?.parts ?? []) {
      if (part.type !== "tool_call") continue;
      const result = results.get(part.id);
      said.push({ role: "tool", tool_call_id: part.id, content: result?.content ?? "There is no result." });
    }
    last = null;
    results = new Map();
  };
  const held: UserTurn[] = [];
  for (const event of events) {
    if (event.type === "run_started") {
      for (const turn of event.turns) {
        if (turn.type === "user") said.push(userMessage(turn));
        else if (turn.type === "assistant") said.push(assistantMessage(turn));
        else said.push(...turn.results.map((one): SpokenMessage => ({ role: "tool", tool_call_id: one.call_id, content: one.content })));
      }
    } else if (event.type === "model_started") {
      settle();
      said.push(...held.splice(0).map(userMessage));
      if (event.round >= round) return said;
    } else if (event.type === "model_finished") {
      last = event.turn;
      said.push(assistantMessage(event.turn));
    } else if (event.type === "tool_finished") results.set(event.result.call_id, event.result);
    else if (event.type === "steered") held.push(event.turn);
  }
  settle();
  return said;
}

function userMessage(turn: UserTurn): SpokenMessage {
  const parts = turn.parts.flatMap((part): object[] => {
    if (part.type === "text") return [{ type: "text", text: part.text }];
    if (part.type === "image") return [{ type: "image_url", image_url: { url: part.url } }];
    if (part.type === "file" && part.id != null) return [{ type: "file", file: { file_id: part.id, filename: part.name ?? "" } }];
    return [];
  });
  const only = turn.parts[0];
  return { role: "user", content: turn.parts.length === 1 && only?.type === "text" ? only.text : parts };
}

function assistantMessage(turn: AssistantTurn): SpokenMessage {
  const text = turn.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  const calls = turn.parts.flatMap((part) => (part.type === "tool_call" ? [{ id: part.id, type: "function" as const, function: { name: part.name, arguments: part.arguments } }] : []));
  return { role: "assistant", content: text === "" && calls.length > 0 ? null : text, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
}
