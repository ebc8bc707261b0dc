// Fields of a form that a JSON Schema describes, and the values that were typed into them.
import type { VNode } from "preact";
import type { FormSchema } from "../api";
import { shown } from "../visible";

export type Values = Record<string, unknown>;

export function startValues(schema: FormSchema): Values {
  return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, one]) => [name, one.default ?? (one.type === "boolean" ? false : "")]));
}

/** Of the types that the schema names. A field that was left empty is left out, unless it is required. */
export function typedValues(schema: FormSchema, values: Values): Values {
  const typed: Values = {};
  for (const [name, one] of Object.entries(schema.properties ?? {})) {
    const value = values[name];
    if ((value === "" || value === undefined) && schema.required?.includes(name) !== true) continue;
    const isNumber = (one.type === "integer" || one.type === "number") && typeof value === "string" && value.trim() !== "";
    typed[name] = isNumber ? Number(value) : value;
  }
  return typed;
}

interface FieldProps {
  name: string;
  schema: FormSchema;
  values: Values;
  set: (values: Values) => void;
}

const FEW = 4; // choices that stand side by side; more are a list

/** The control of one field: a switch, a choice or a line of text. Its label is the caller's. */
export function Field({ name, schema, values, set }: FieldProps): VNode {
  const one = schema.properties?.[name] ?? {};
  const put = (value: unknown) => set({ ...values, [name]: value });
  if (one.enum !== undefined && one.enum.length <= FEW) {
    return (
      <span class="seg" role="group" aria-label={shown(one.title ?? name)}>
        {one.enum.map((choice) => (
          <button key={String(choice)} type="button" aria-pressed={values[name] === choice} onClick={() => put(values[name] === choice ? "" : choice)}>
            {shown(String(choice))}
          </button>
        ))}
      </span>
    );
  }
  if (one.type === "boolean") {
    return <button type="button" class={values[name] === true ? "sw on" : "sw"} role="switch" aria-checked={values[name] === true} aria-label={shown(one.title ?? name)} onClick={() => put(values[name] !== true)} />;
  }
  return (
    <span class="field">
      {one.enum === undefined ? (
        <input
          required={schema.required?.includes(name) ?? false}
          aria-label={shown(one.title ?? name)}
          inputMode={one.type === "integer" || one.type === "number" ? "decimal" : "text"}
          placeholder={one.examples?.[0] === undefined ? "" : shown(String(one.examples[0]))}
          value={String(values[name] ?? "")}
          onInput={(event) => put(event.currentTarget.value)}
        />
      ) : (
        <select aria-label={shown(one.title ?? name)} value={String(values[name] ?? "")} onChange={(event) => put(event.currentTarget.value)}>
          <option value="" />
          {one.enum.map((choice) => (
            <option key={String(choice)}>{shown(String(choice))}</option>
          ))}
        </select>
      )}
    </span>
  );
}
