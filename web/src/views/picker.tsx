// Agents and models: what answers in this session. Those that are broken are shown, and cannot be taken.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Model } from "../api";
import { facts, models } from "../store/server";
import { change, settings } from "../store/session";
import { shown } from "../visible";
import { Icon } from "./icon";
import { closeLayer } from "./panes";

export function Picker(): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState("");
  useEffect(() => box.current?.showModal(), []);
  const main = facts.value?.model ?? "";
  const bare = main.replace(/^[\w-]+:/, "");
  // The first two names of the list are the model's: its role here, and its own.
  const all = models.value.filter((model) => model.id !== "default" && model.id !== bare && model.id !== main);
  const fits = (model: Model) => model.id.toLowerCase().includes(words.toLowerCase());
  const take = (id: string) => {
    change({ model: id });
    box.current?.close();
  };
  const rows: { id: string; name: string; icon: string; note: string; isOff: boolean }[] = [
    ...all.filter(fits).map((model) => ({ id: model.id, name: model.id, icon: "bot", note: model.status === "broken" ? "broken" : "", isOff: model.status === "broken" })),
  ];
  const mainRow = { id: "", name: main, icon: "cpu", note: main.startsWith("local:") ? "on this machine" : "", isOff: false };
  const showsMain = mainRow.name.toLowerCase().includes(words.toLowerCase());
  return (
    <dialog ref={box} class="dialog picker" aria-label="Agents and models" onClose={closeLayer} onClick={(event) => event.target === box.current && box.current?.close()}>
      <label class="field">
        <Icon name="search" small />
        <input placeholder="Agents and models" aria-label="Agents and models" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      </label>
      {rows.length > 0 && <div class="group">Agents</div>}
      <div class="list">
        {rows.map((row) => (
          <Row key={row.id} row={row} take={take} />
        ))}
      </div>
      {showsMain && (
        <>
          <div class="group">Models</div>
          <div class="list">
            <Row row={mainRow} take={take} />
          </div>
        </>
      )}
      {rows.length === 0 && !showsMain && <p class="small t3 none-found">Nothing is called “{shown(words)}”.</p>}
    </dialog>
  );
}

function Row({ row, take }: { row: { id: string; name: string; icon: string; note: string; isOff: boolean }; take: (id: string) => void }): VNode {
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
