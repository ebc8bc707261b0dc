// Answers to a question that are more than a yes: a reason for a no, other arguments, what a tool wants to know.
import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type FormSchema, api } from "../api";
import type { Question } from "../fold/state";
import { cardProblem, decide, mode, sending } from "../store/approval";
import { live } from "../store/session";
import { lookNow } from "../stream";
import { valuesOf } from "../tools";
import { shown } from "../visible";
import { Field, type Values, startValues, typedValues } from "./fields";

export function DenyForm({ question }: { question: Question }): VNode {
  const field = useRef<HTMLInputElement>(null);
  const [words, setWords] = useState("");
  useLayoutEffect(() => field.current?.focus(), []); // at once: the next letter is meant for it
  const send = () => void decide(question, words.trim() === "" ? { decision: "deny" } : { decision: "deny", message: words.trim() });
  return (
    <form
      class="acts"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onKeyDown={(event) => leaveOnEscape(event)}
    >
      <input ref={field} class="field grow" aria-label="Reason, for the model to read" placeholder="Reason, for the model to read" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      <button type="submit" class="btn sm ink" disabled={sending.value}>
        Deny
      </button>
      <button type="button" class="btn sm quiet" onClick={leave}>
        Back <kbd>Esc</kbd>
      </button>
    </form>
  );
}

function leaveOnEscape(event: KeyboardEvent): void {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  leave();
}

function leave(): void {
  mode.value = "decide";
  document.querySelector<HTMLElement>("[data-ask]")?.focus();
}

type Kind = "text" | "number" | "boolean" | "json";

function kindOf(value: unknown): Kind {
  if (typeof value === "string") return "text";
  if (typeof value === "number") return "number";
  return typeof value === "boolean" ? "boolean" : "json";
}

function written(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Other arguments: a field for each, of the type that it was. The server checks them by the tool's schema, and names what is wrong. */
export function EditForm({ question, isSheet }: { question: Question; isSheet: boolean }): VNode {
  const before = valuesOf(question.arguments);
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    before === null ? { "": question.arguments } : Object.fromEntries(Object.entries(before).map(([name, value]) => [name, written(value)])),
  );
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector<HTMLElement>("input, textarea")?.focus(), []);
  const send = () => {
    const read = readValues(before, texts);
    if (typeof read === "string") cardProblem.value = read;
    else void decide(question, { decision: "approve", arguments: read });
  };
  const wrong = Object.keys(texts).find((name) => name !== "" && new RegExp(`(/|')${escape(name)}\\b|"${escape(name)}"`).test(cardProblem.value));
  return (
    <form
      ref={form}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onKeyDown={(event) => {
        leaveOnEscape(event);
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
          event.preventDefault();
          send();
        }
      }}
    >
      <div class="edit-args">
        {Object.entries(texts).map(([name, value]) => {
          const old = before === null ? undefined : before[name];
          const kind = before === null ? "json" : kindOf(old);
          const isChanged = before !== null && value !== written(old);
          const set = (text: string) => setTexts({ ...texts, [name]: text });
          const label = name === "" ? "arguments" : name;
          return (
            <label key={name} class="edit-row">
              <span class="mono t3">{shown(label)}</span>
              <span class={wrong === name ? "field wrong" : "field"}>
                {kind === "json" || value.includes("\n") || value.length > 120 ? (
                  <textarea rows={Math.min(8, value.split("\n").length + 1)} value={value} aria-invalid={wrong === name} onInput={(event) => set(event.currentTarget.value)} />
                ) : (
                  <input value={value} inputMode={kind === "number" ? "decimal" : "text"} aria-invalid={wrong === name} onInput={(event) => set(event.currentTarget.value)} />
                )}
                {isChanged && <span class="small t3 was">{typeName(old)} · was {shown(written(old).slice(0, 40))}</span>}
              </span>
            </label>
          );
        })}
      </div>
      {cardProblem.value !== "" && (
        <p class="small fail reason" role="alert">
          {shown(cardProblem.value)}
        </p>
      )}
      <div class="acts">
        <button type="submit" class="btn ink sm" disabled={sending.value}>
          Run with these {!isSheet && <kbd>Ctrl Enter</kbd>}
        </button>
        <button type="button" class="btn sm quiet" onClick={leave}>
          Back {!isSheet && <kbd>Esc</kbd>}
        </button>
        <span class="end small t3 wide">checked against the tool’s schema</span>
      </div>
    </form>
  );
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

function typeName(value: unknown): string {
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return value === null ? "null" : Array.isArray(value) ? "list" : typeof value === "string" ? "text" : typeof value;
}

/** The values of a form, or what is wrong with it. A number that is none goes out as it was written, for the server to refuse by name. */
function readValues(before: Record<string, unknown> | null, texts: Record<string, string>): unknown {
  if (before === null) {
    try {
      return JSON.parse(texts[""] ?? "") as unknown;
    } catch {
      return "The arguments are no JSON.";
    }
  }
  const read: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(texts)) {
    const kind = kindOf(before[name]);
    if (kind === "text") read[name] = value;
    else if (kind === "number") read[name] = value.trim() !== "" && Number.isFinite(Number(value)) ? Number(value) : value;
    else {
      try {
        read[name] = JSON.parse(value) as unknown;
      } catch {
        return kind === "boolean" ? `'${name}' must be true or false.` : `'${name}' is no JSON.`;
      }
    }
  }
  return read;
}

/** What a tool wants to know: a form from its schema. */
export function InputForm({ question }: { question: Question }): VNode {
  const schema = (typeof question.schema === "object" && question.schema !== null ? question.schema : {}) as FormSchema;
  const [values, setValues] = useState<Values>(() => startValues(schema));
  const run = live.value;
  const answer = async (decision: "approve" | "deny") => {
    if (run === null) return;
    sending.value = true;
    cardProblem.value = "";
    try {
      await api.answer(run.id, question.id, decision, decision === "approve" ? typedValues(schema, values) : undefined);
      lookNow();
    } catch (error) {
      cardProblem.value = error instanceof Error ? error.message : String(error);
    } finally {
      sending.value = false;
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void answer("approve");
      }}
    >
      {question.message !== "" && <p class="ask-message">{shown(question.message)}</p>}
      <div class="edit-args">
        {Object.entries(schema.properties ?? {}).map(([name, one]) => (
          <div key={name} class="edit-row">
            <span class="t2">{shown(one.title ?? name)}</span>
            <Field name={name} schema={schema} values={values} set={setValues} />
          </div>
        ))}
      </div>
      {cardProblem.value !== "" && (
        <p class="small fail reason" role="alert">
          {shown(cardProblem.value)}
        </p>
      )}
      <div class="acts">
        <button type="submit" class="btn ink sm" disabled={sending.value}>
          Answer
        </button>
        <button type="button" class="btn sm quiet" disabled={sending.value} onClick={() => void answer("deny")}>
          Leave it open to the tool
        </button>
      </div>
    </form>
  );
}
