// Where a person writes. Enter asks, or says something into the run under way; files come by drop, paste or button.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { changed } from "../changes";
import { type Sending, attach, canSend, detach, draft, files, isSending, problem, send, write } from "../store/composer";
import { facts, models, serverTools } from "../store/server";
import { change, entries, held, live, settings, stopRun } from "../store/session";
import { bareModel } from "../format";
import { connection } from "../stream";
import { shown } from "../visible";
import { fileIcon } from "./file";
import { Icon } from "./icon";
import { openLayer, togglePane, pane } from "./panes";
import { CTRL } from "./view-keys";

const MAX_HEIGHT = 220; // px, then it scrolls

export function Composer({ isFirst = false }: { isFirst?: boolean }): VNode {
  const area = useRef<HTMLTextAreaElement>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const isLive = live.value !== null;
  const isOff = connection.value.kind === "gone";

  useLayoutEffect(() => {
    const element = area.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, MAX_HEIGHT)}px`;
  }, [draft.value]);

  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) area.current?.focus();
  }, []);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!isOff) void send();
    } else if (event.key === "ArrowUp" && draft.value === "" && !isLive) {
      const edits = document.querySelectorAll<HTMLButtonElement>("[data-edit]");
      const last = edits[edits.length - 1];
      if (last !== undefined) {
        event.preventDefault();
        last.click();
      }
    }
  };

  const onPaste = (event: ClipboardEvent) => {
    const pasted = [...(event.clipboardData?.files ?? [])];
    if (pasted.length === 0) return;
    event.preventDefault();
    attach(pasted);
  };

  const isAgent = models.value.some((model) => model.id === settings.value.model && model.agent !== undefined);
  const words = isOff ? "The server does not answer; your words are kept" : isLive ? "Say something into the run…" : isFirst ? "Ask, drop a file, or paste a picture…" : "Ask something…";
  return (
    <div class={isFirst ? "composer first" : "composer"} role="group" aria-label="Message">
      {held.value !== "" && (
        <div class="held small">
          <Icon name="clock" small class="wait" />
          <span class="cut grow">{shown(held.value)}</span>
          <span class="t3">goes out after your decision</span>
          <button type="button" class="ic sm" aria-label="Take these words back" onClick={() => { write(held.value); held.value = ""; }}>
            <Icon name="x" small />
          </button>
        </div>
      )}
      <div class="ph">
        <textarea
          ref={area}
          id="composer"
          rows={1}
          value={draft.value}
          placeholder={words}
          aria-label={isLive ? "Say something into the run" : "Your message"}
          aria-describedby={problem.value === "" ? undefined : "composer-problem"}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
        />
        {files.value.length > 0 && (
          <div class="atts">
            {files.value.map((file) => (
              <FileChip key={file.key} file={file} />
            ))}
          </div>
        )}
      </div>
      {problem.value !== "" && (
        <p id="composer-problem" class="small fail reason" role="alert">
          {shown(problem.value)}
        </p>
      )}
      <div class="tools">
        <button type="button" class="ic sm" aria-label="Attach files" title="Attach files" onClick={() => chooser.current?.click()}>
          <Icon name="plus" />
        </button>
        <input ref={chooser} type="file" multiple hidden tabIndex={-1} aria-label="Files to attach" onChange={(event) => { attach(event.currentTarget.files ?? []); event.currentTarget.value = ""; }} />
        <button type="button" class={pane.value === "settings" ? "pick on wide" : "pick wide"} aria-expanded={pane.value === "settings"} onClick={() => togglePane("settings")}>
          <Icon name="wrench" small /> {toolWords()}
        </button>
        <button type="button" class="pick" aria-haspopup="dialog" onClick={() => openLayer("picker")} aria-label={`Model: ${shown(chosenModel())}`}>
          <Icon name={isAgent ? "bot" : "cpu"} small /> <span class="cut">{shown(bareModel(chosenModel()))}</span> <Icon name="chevron-down" small />
        </button>
        {facts.value?.permission !== "deny" && toolCount() > 0 && (
          <button
            type="button"
            class={settings.value.askFirst ? "pick wait wide" : "pick wide"}
            aria-pressed={settings.value.askFirst || facts.value?.permission === "ask"}
            disabled={facts.value?.permission === "ask"}
            title="Ask me before any tool runs"
            onClick={() => change({ askFirst: !settings.value.askFirst })}
          >
            <Icon name="shield" small /> {settings.value.askFirst || facts.value?.permission === "ask" ? "Ask first" : "Tools run"}
          </button>
        )}
        <span class="end row">
          {isLive ? (
            <button type="button" class="btn sm" onClick={() => void stopRun()}>
              <Icon name="stop" small /> Stop <kbd class="wide">{CTRL} .</kbd>
            </button>
          ) : (
            isFirst && <span class="small t3 wide">Enter sends</span>
          )}
          <button type="button" class="send" aria-label={isLive ? "Say into the run" : "Send"} disabled={isOff || isSending.value} aria-disabled={!canSend.value} onClick={() => (canSend.value ? void send() : area.current?.focus())}>
            <Icon name="arrow-up" />
          </button>
        </span>
      </div>
    </div>
  );
}

function toolWords(): string {
  const count = toolCount();
  if (count === 0) return "No tools";
  return count === 1 ? "1 tool" : `${count} tools`;
}

export function toolCount(): number {
  const found = facts.value;
  if (found === null) return 0;
  const { python, shell, search, search_always } = found.features;
  const chosen = settings.value;
  const isOff = (name: string) => {
    const server = serverTools.value.find((one) => one.name === name)?.source.server ?? null;
    return chosen.off.includes(name) || (server !== null && chosen.off.includes(`mcp:${server}`));
  };
  const own = found.tools.filter((name) => !name.startsWith("mistralrs_") && !isOff(name));
  return own.length + Number(python && chosen.python) + Number(shell && chosen.shell) + Number(search && (search_always || chosen.search));
}

export function chosenModel(): string {
  const chosen = settings.value.model;
  if (chosen !== "" && models.value.some((model) => model.id === chosen)) return chosen;
  return facts.value?.model ?? "model";
}

function FileChip({ file }: { file: Sending }): VNode {
  changed(file);
  return (
    <span class={file.state === "refused" ? "chip fail" : "chip"} title={file.problem === "" ? undefined : shown(file.problem)}>
      <Icon name={fileIcon(file.name)} small />
      <b class="cut">{shown(file.name)}</b>
      {file.state === "sending" && <span class="accent num">{Math.round(file.share * 100)} %</span>}
      {file.state === "refused" && <span class="cut">{shown(file.problem)}</span>}
      <button type="button" class="chip-x" aria-label={`Remove ${shown(file.name)}`} onClick={() => detach(file)}>
        <Icon name="x" small />
      </button>
    </span>
  );
}

/** Whether anything was asked here yet. */
export function isFresh(): boolean {
  return entries.value.length === 0;
}
