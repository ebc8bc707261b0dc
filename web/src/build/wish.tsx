// What a person wishes for in Build: words, pictures, a chosen element, how many variants, and which models write them.
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { Problem } from "../api";
import { changed } from "../changes";
import { phaseOf } from "../fold/state";
import { bytes, plural } from "../format";
import { address, go } from "../router";
import { facts, models } from "../store/server";
import { shown } from "../visible";
import { Icon } from "../views/icon";
import { useLeaving } from "../views/leave";
import { type Picked, type Picture, type Version, build } from "./project";

const MOST_PICTURES = 4;
const MOST_BYTES = 5_000_000; // what Anthropic takes of one picture; OpenAI and Gemini take more
const MOST_VARIANTS = 3; // each has a stream of events, and a browser has six connections for all tabs

interface WishProps {
  version: Version | null;
  chosen: number;
  picked: Picked | null;
  drop: () => void;
}

export function Wish({ version, chosen, picked, drop }: WishProps): VNode {
  const [text, setText] = useState("");
  // Until a person says otherwise, the next version is made as this one was.
  const [wantedVariants, setVariants] = useState<number | null>(null);
  const [wantedModels, setModels] = useState<string[] | null>(null);
  const variants = wantedVariants ?? (version?.variants.length || 2);
  const chosenModels = wantedModels ?? modelsOf(version);
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const from = version?.variants[chosen];
  if (from !== undefined) changed(from);
  const isBusy = from !== undefined && phaseOf(from.run) !== "finished";
  const chooser = useRef<HTMLInputElement>(null);
  const [pictures, setPictures] = useState<Picture[]>([]);
  const add = (files: Iterable<File>) => {
    setProblem("");
    for (const file of files) {
      if (!/^image\/(png|jpeg|webp|gif)$/.test(file.type)) setProblem(`${file.name || "This"} is no picture that models read: PNG, JPEG, WebP or GIF.`);
      else if (file.size > MOST_BYTES) setProblem(`${file.name || "The picture"} has ${bytes(file.size)}; a picture may have ${bytes(MOST_BYTES)}.`);
      else {
        const reader = new FileReader();
        reader.onload = () => setPictures((known) => [...known, { name: file.name || "picture.png", url: String(reader.result) }].slice(-MOST_PICTURES));
        reader.readAsDataURL(file);
      }
    }
  };
  const send = async () => {
    if (text.trim() === "" || isSending || isBusy) return;
    setSending(true);
    setProblem("");
    try {
      const group = await build({ text: text.trim(), variants, models: chosenModels, parent: from?.id ?? "", picked, pictures });
      drop();
      go(address("build", group));
    } catch (error) {
      setProblem(error instanceof Problem && error.isOffline ? "The server does not answer. Your words are kept." : String(error instanceof Error ? error.message : error));
      setSending(false);
    }
  };
  return (
    <div
      class="wish"
      onDragOver={(event) => [...(event.dataTransfer?.types ?? [])].includes("Files") && event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        add(event.dataTransfer?.files ?? []);
      }}
    >
      {pictures.length > 0 && (
        <div class="wish-pictures">
          {pictures.map((one, at) => (
            <span key={at} class="chip">
              <img src={one.url} alt="" /> <b class="cut">{shown(one.name)}</b>
              <button type="button" class="chip-x" aria-label={`Remove ${shown(one.name)}`} onClick={() => setPictures(pictures.filter((_, index) => index !== at))}>
                <Icon name="x" small />
              </button>
            </span>
          ))}
        </div>
      )}
      {picked !== null && (
        <span class="chip picked">
          <Icon name="pointer" small class="accent" />
          <b class="cut mono-s">{shown(picked.selector)}</b>
          <button type="button" class="chip-x" aria-label="Not about this element" onClick={drop}>
            <Icon name="x" small />
          </button>
        </span>
      )}
      <textarea
        ref={field}
        id="wish"
        rows={2}
        aria-label={version === null ? "Describe a page" : "Ask for a change"}
        placeholder={version === null ? "Describe a page, or paste a picture…" : "Ask for a change…"}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onPaste={(event) => {
          const pasted = [...(event.clipboardData?.files ?? [])];
          if (pasted.length === 0) return;
          event.preventDefault();
          add(pasted);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      {problem !== "" && <p class="small fail reason" role="alert">{shown(problem)}</p>}
      {isBusy && <p class="small t3 reason">Variant {from?.letter} is still being written.</p>}
      <div class="row wish-tools">
        <button type="button" class="ic sm" aria-label="Add a picture" title="Add a picture" onClick={() => chooser.current?.click()}>
          <Icon name="plus" />
        </button>
        <input ref={chooser} type="file" accept="image/png,image/jpeg,image/webp,image/gif" multiple hidden tabIndex={-1} aria-label="Pictures" onChange={(event) => { add(event.currentTarget.files ?? []); event.currentTarget.value = ""; }} />
        <ModelChoice chosen={chosenModels} set={setModels} />
        <label class="pick choice">
        <select aria-label="Variants" value={variants} onChange={(event) => setVariants(Number(event.currentTarget.value))}>
          {Array.from({ length: MOST_VARIANTS }, (_, at) => (
            <option key={at} value={at + 1}>{plural(at + 1, "variant")}</option>
          ))}
        </select>
        <Icon name="chevron-down" small />
        </label>
        <button type="button" class="send end" aria-label={version === null ? "Build it" : "Ask for the change"} disabled={text.trim() === "" || isSending || isBusy} onClick={() => void send()}>
          <Icon name="arrow-up" />
        </button>
      </div>
    </div>
  );
}

function ownModel(): string {
  return (facts.value?.model ?? "").replace(/^[\w-]+:/, "");
}

/** The models that wrote a version; none: the server's own. */
function modelsOf(version: Version | null): string[] {
  for (const variant of version?.variants ?? []) changed(variant);
  const known = new Set(models.value.map((one) => one.id));
  const names = (version?.variants ?? []).map(({ run }) => [run.model.replace(/^[\w-]+:/, ""), run.model].find((name) => known.has(name)) ?? "");
  const used = [...new Set(names)].filter((name) => name !== "");
  return used.length === 1 && used[0] === ownModel() ? [] : used;
}

/** The models that the variants take in turn; none: the server's own. */
function ModelChoice({ chosen, set }: { chosen: string[]; set: (names: string[]) => void }): VNode {
  const own = ownModel() || "model";
  const names = models.value.filter((one) => one.id !== "default" && one.status !== "broken" && one.agent === undefined).map((one) => one.id);
  const box = useRef<HTMLDetailsElement>(null);
  const [isOpen, setOpen] = useState(false);
  const close = () => box.current?.removeAttribute("open");
  useLeaving(box, isOpen, close);
  const toggle = (name: string) => set(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]);
  return (
    <details ref={box} class="menu-box" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="pick" title="Models, which variants take in turn">
        <Icon name="cpu" small /> <span class="cut">{chosen.length > 1 ? plural(chosen.length, "model") : shown(chosen[0] ?? own)}</span> <Icon name="chevron-down" small />
      </summary>
      <div class="menu" role="group" aria-label="Models, which variants take in turn">
        {names.map((name) => (
          <label key={name} class="list-row">
            <input type="checkbox" checked={chosen.length === 0 ? name === own : chosen.includes(name)} onChange={() => (chosen.length === 0 && name !== own ? set([own, name]) : toggle(name))} />
            <span class="cut">{shown(name)}</span>
          </label>
        ))}
      </div>
    </details>
  );
}
