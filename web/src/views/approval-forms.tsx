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
import { CTRL } from "./view-keys";

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

/** "any": the model left it out, and the schema names no type. */
type Kind = "text" | "number" | "boolean" | "json" | "any";

interface Argument {
  kind: Kind;
  /** As the model wrote it; undefined: it left it out. */
  before: unknown;
  /** The only values that it may have. */
  choices: string[];
  type: string;
}

/** What the model has given, and what else the tool takes. */
function argumentsOf(values: Record<string, unknown>, parameters: unknown): Record<string, Argument> {
  const properties = (parameters as FormSchema | null)?.properties ?? {};
  const names = [...new Set([...Object.keys(values), ...Object.keys(properties)])];
  return Object.fromEntries(
    names.map((name) => {
      const [before, told] = [values[name], properties[name]];
      const choices = told?.enum?.every((one) => typeof one === "string") ? (told.enum as string[]) : [];
      const type = told?.type ?? (before === undefined ? "" : typeName(before));
      return [name, { kind: before === undefined ? kindNamed(type) : kindOf(before), before, choices, type: type === "string" ? "text" : type }];
    }),
  );
}

function kindNamed(type: string): Kind {
  if (type === "string") return "text";
  if (type === "integer" || type === "number") return "number";
  if (type === "boolean") return "boolean";
  return type === "" ? "any" : "json";
}

function kindOf(value: unknown): Kind {
  if (typeof value === "string") return "text";
  if (typeof value === "number") return "number";
  return typeof value === "boolean" ? "boolean" : "json";
}

function written(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Other arguments: a field for each that there is or may be. The server checks them by the tool's schema, and names what is wrong. */
export function EditForm({ question, isSheet }: { question: Question; isSheet: boolean }): VNode {
  const before = valuesOf(question.arguments);
  const known = argumentsOf(before ?? {}, question.parameters);
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    before === null ? { "": question.arguments } : Object.fromEntries(Object.entries(known).map(([name, one]) => [name, one.before === undefined ? "" : written(one.before)])),
  );
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector<HTMLElement>("input, textarea")?.focus(), []);
  const send = () => {
    const read = before === null ? readJson(texts[""] ?? "") : readValues(known, texts);
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
          const one = known[name] ?? { kind: "json", before: undefined, choices: [], type: "" };
          const isGiven = one.before !== undefined;
          const isChanged = isGiven && value !== written(one.before);
          const set = (text: string) => setTexts({ ...texts, [name]: text });
          const label = name === "" ? "arguments" : name;
          return (
            <label key={name} class="edit-row">
              <span class="mono t3">{shown(label)}</span>
              <span class={wrong === name ? "field wrong" : "field"}>
                {one.choices.length > 0 ? (
                  <select value={value} aria-invalid={wrong === name} onChange={(event) => set(event.currentTarget.value)}>
                    {[...new Set([isGiven ? written(one.before) : "", ...one.choices])].map((choice) => (
                      <option key={choice} value={choice}>{shown(choice)}</option>
                    ))}
                  </select>
                ) : one.kind === "json" || value.includes("\n") || value.length > 120 ? (
                  <textarea rows={Math.min(8, value.split("\n").length + 1)} value={value} aria-invalid={wrong === name} onInput={(event) => set(event.currentTarget.value)} />
                ) : (
                  <input value={value} inputMode={one.kind === "number" ? "decimal" : "text"} aria-invalid={wrong === name} onInput={(event) => set(event.currentTarget.value)} />
                )}
                {isChanged && <span class="small t3 was">{one.type} · was {shown(written(one.before).slice(0, 40))}</span>}
                {!isGiven && name !== "" && value === "" && <span class="small t3 was">{one.type === "" ? "" : `${one.type} · `}not given</span>}
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
          Run with these {!isSheet && <kbd>{CTRL} Enter</kbd>}
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

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return "The arguments are no JSON.";
  }
}

/** The values of a form, or what is wrong with it. A number that is none goes out as it was written, for the server to refuse by name. */
function readValues(known: Record<string, Argument>, texts: Record<string, string>): unknown {
  const read: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(texts)) {
    const kind = known[name]?.kind ?? "text";
    if (known[name]?.before === undefined && value.trim() === "") continue; // the model left it out, and so does the person
    if (kind === "text") read[name] = value;
    else if (kind === "number") read[name] = value.trim() !== "" && Number.isFinite(Number(value)) ? Number(value) : value;
    else {
      try {
        read[name] = JSON.parse(value) as unknown;
      } catch {
        if (kind === "any") read[name] = value;
        else return kind === "boolean" ? `'${name}' must be true or false.` : `'${name}' is no JSON.`;
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
