// Agents and models: what answers in this session, and what an agent wants to be asked with. Broken ones are shown, and cannot be taken.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Model } from "../api";
import { facts, models } from "../store/server";
import { change, settings } from "../store/session";
import { labelOf } from "../tools";
import { shown } from "../visible";
import { Field, type Values, startValues, typedValues } from "./fields";
import { Icon } from "./icon";
import { closeLayer } from "./panes";

interface PickerRow {
  id: string;
  name: string;
  icon: string;
  note: string;
  isOff: boolean;
}

export function Picker(): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState("");
  useLayoutEffect(() => box.current?.showModal(), []);
  const main = facts.value?.model ?? "";
  const bare = main.replace(/^[\w-]+:/, "");
  // The first two names of the list are the model's: its role here, and its own.
  const all = models.value.filter((model) => model.id !== "default" && model.id !== bare && model.id !== main);
  const fits = (row: PickerRow) => row.name.toLowerCase().includes(words.toLowerCase());
  const agents = all.filter((model) => model.agent !== undefined || model.status === "broken").map(rowOf("bot")).filter(fits);
  const others = all.filter((model) => model.agent === undefined && model.status !== "broken").map(rowOf("cpu"));
  const found = [{ id: "", name: main, icon: "cpu", note: main.startsWith("local:") ? "on this machine" : "", isOff: false }, ...others].filter(fits);
  const chosen = models.value.find((model) => model.id === settings.value.model)?.agent;
  const take = (id: string) => {
    if (id !== settings.value.model) change({ model: id, inputs: {} });
    // An agent that wants to know something shows its form; everything else is done.
    if (Object.keys(models.value.find((model) => model.id === id)?.agent?.inputs.properties ?? {}).length === 0) box.current?.close();
  };
  return (
    <dialog ref={box} class={chosen === undefined ? "dialog picker" : "dialog picker with-form"} aria-label="Agents and models" onClose={closeLayer} onClick={(event) => event.target === box.current && box.current?.close()}>
      <div class="picker-list">
        <label class="field">
          <Icon name="search" small />
          <input placeholder="Agents and models" aria-label="Agents and models" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
        </label>
        <Rows title="Agents" rows={agents} take={take} />
        <Rows title="Models" rows={found} take={take} />
        {agents.length === 0 && found.length === 0 && <p class="small t3 none-found">Nothing is called “{shown(words)}”.</p>}
      </div>
      {chosen !== undefined && <AgentForm key={settings.value.model} name={settings.value.model} agent={chosen} done={() => box.current?.close()} />}
    </dialog>
  );
}

function rowOf(icon: string): (model: Model) => PickerRow {
  return (model) => ({ id: model.id, name: model.id, icon, note: model.status === "broken" ? "broken" : "", isOff: model.status === "broken" });
}

function Rows({ title, rows, take }: { title: string; rows: PickerRow[]; take: (id: string) => void }): VNode | null {
  if (rows.length === 0) return null;
  return (
    <>
      <div class="group">{title}</div>
      <div class="list">
        {rows.map((row) => (
          <Row key={row.id} row={row} take={take} />
        ))}
      </div>
    </>
  );
}

function Row({ row, take }: { row: PickerRow; take: (id: string) => void }): VNode {
  const isChosen = settings.value.model === row.id;
  return (
    <button type="button" class="list-row" aria-pressed={isChosen} disabled={row.isOff} onClick={() => take(row.id)}>
      <Icon name={row.isOff ? "alert" : row.icon} small class={row.isOff ? "fail" : ""} />
      <span class="cut">{shown(row.name)}</span>
      <span class={row.isOff ? "when fail" : "when"}>{row.note}</span>
      {isChosen && <Icon name="check" small />}
    </button>
  );
}

/** What the agent does and wants. What is typed here goes along with every question of the session. */
function AgentForm({ name, agent, done }: { name: string; agent: NonNullable<Model["agent"]>; done: () => void }): VNode {
  const schema = agent.inputs;
  const fields = Object.entries(schema.properties ?? {});
  const [values, setValues] = useState<Values>(() => ({ ...startValues(schema), ...settings.value.inputs }));
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector<HTMLElement>("input, button")?.focus(), []);
  const set = (next: Values) => {
    setValues(next);
    change({ inputs: typedValues(schema, next) });
  };
  return (
    <form
      ref={form}
      class="agent-form"
      onSubmit={(event) => {
        event.preventDefault();
        change({ inputs: typedValues(schema, values) });
        done();
      }}
    >
      <b class="strong">{shown(agent.title ?? name)}</b>
      {agent.description !== null && <p class="small t2">{shown(agent.description)}</p>}
      {fields.map(([field, one]) => (
        <div key={field} class="agent-field">
          <span class="small">
            <b class="strong">{shown(one.title ?? field)}</b> {schema.required?.includes(field) && <span class="t3">required</span>}
          </span>
          <Field name={field} schema={schema} values={values} set={set} />
          {one.description !== undefined && one.description !== "" && <span class="small t3">{shown(one.description)}</span>}
        </div>
      ))}
      {agent.tools.map((tool) => (
        <span key={tool.name} class="row small t2">
          <Icon name="wrench" small /> <span class="mono-s cut">{shown(labelOf(tool.name))}</span>
        </span>
      ))}
      <button type="submit" class="btn ink sm">
        {fields.length === 0 ? "Done" : "Ask with these"}
      </button>
    </form>
  );
}
