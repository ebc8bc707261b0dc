// Build: a page is described, written in variants side by side while a person watches, changed, and taken away. A chunk of its own.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { Problem, api } from "../api";
import { changed } from "../changes";
import { now } from "../clock";
import { answerOf, phaseOf } from "../fold/state";
import { cost, plural, sentence, spent, tokens, when } from "../format";
import { address, place } from "../router";
import { shown } from "../visible";
import { Icon, Spinner } from "../views/icon";
import { openLayer } from "../views/panes";
import "../styles/build.css";
import { Drawer } from "./drawer";
import { Preview } from "./preview";
import { Wish } from "./wish";
import { type Picked, Project, type Variant, type Version, askedFor, recent } from "./project";

type Size = "desktop" | "tablet" | "phone";
const SIZES: { size: Size; icon: string; name: string }[] = [
  { size: "desktop", icon: "monitor", name: "As wide as there is room" },
  { size: "tablet", icon: "tablet", name: "820 px wide" },
  { size: "phone", icon: "phone", name: "390 px wide" },
];
const TRY = "A page with the departures of a tram stop: line, where it goes, minutes, and delays at a glance.";

export function BuildView(): VNode {
  const group = place.value.id;
  const project = useMemo(() => new Project(), [group]);
  useEffect(() => {
    if (group !== "") void project.load(group);
    return () => project.close();
  }, [project]);
  const versions = project.versions.value;
  const wanted = Number(place.value.query.get("v") ?? versions.length);
  const version = versions[Math.min(versions.length, Math.max(1, wanted)) - 1] ?? null;
  const [kept, setKept] = useState<Record<string, number>>({});
  const [only, setOnly] = useState(-1);
  const [size, setSize] = useState<Size>("desktop");
  const [choosing, setChoosing] = useState(-1);
  const [picked, setPicked] = useState<Picked | null>(null);
  const chosen = version === null ? 0 : Math.min(kept[version.group] ?? keptIn(versions, version), version.variants.length - 1);
  const keep = (index: number) => {
    if (version !== null) {
      setKept({ ...kept, [version.group]: index });
      version.variants.forEach((one) => one.mark(one.index === index));
    }
    announce(`The next version goes on from variant ${String.fromCharCode(65 + index)}`);
  };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (!event.altKey || event.ctrlKey || event.metaKey) return;
      const index = Number(event.code.replace("Digit", "")) - 1;
      if (event.code === "KeyD") setSize(SIZES[(SIZES.findIndex((one) => one.size === size) + 1) % SIZES.length]?.size ?? "desktop");
      else if (index >= 0 && version !== null && index < version.variants.length) setOnly(only === index ? -1 : index);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [size, only, version]);
  if (group !== "" && project.isRead.value && version === null) return <Gone problem={project.problem.value} />;
  const title = versions[0] === undefined ? "Build" : (changed(versions[0].variants[0] ?? project), askedFor(versions[0]).split("\n")[0] || "Build");
  // Where there is room for one of them only, that is the one that is kept.
  const alone = only === -1 && isNarrow.value ? chosen : only;
  const shownVariants = version?.variants.filter((one) => alone === -1 || one.index === alone) ?? [];
  return (
    <>
      <div class="bar">
        <button type="button" class="ic only-phone" aria-label="Sessions and views" onClick={() => openLayer("sidebar")}>
          <Icon name="menu" />
        </button>
        <div class="bar-title">
          <h1 class="cut">{shown(title)}</h1>
        </div>
        {version !== null && <WritingPill version={version} />}
        {version !== null && (
          <span class="end row">
            {version.variants.length > 1 && (
              <div class="seg" role="group" aria-label="Variants">
                {!isNarrow.value && (
                  <button type="button" aria-pressed={only === -1} onClick={() => setOnly(-1)}>
                    <Icon name="columns" small /> {version.variants.map((one) => one.letter).join(version.variants.length === 2 ? " and " : ", ")}
                  </button>
                )}
                {version.variants.map((one) => (
                  <button key={one.id} type="button" aria-pressed={alone === one.index} title={`Alt ${one.index + 1}`} onClick={() => setOnly(one.index)}>
                    {one.letter}
                  </button>
                ))}
              </div>
            )}
            <div class="seg hide-phone" role="group" aria-label="Size">
              {SIZES.map((one) => (
                <button key={one.size} type="button" aria-pressed={size === one.size} aria-label={one.name} title={one.name} onClick={() => setSize(one.size)}>
                  <Icon name={one.icon} small />
                </button>
              ))}
            </div>
            <Download variant={version.variants[chosen]} />
          </span>
        )}
      </div>
      <div class={version === null ? "bld empty" : "bld"}>
        <div class="left">
          {versions.length > 0 && <Versions versions={versions} current={version} />}
          {group !== "" && !project.isRead.value && <p class="t3 left-words">Reading…</p>}
          {group === "" && <Start />}
          <Wish key={group} version={version} chosen={chosen} picked={picked} drop={() => setPicked(null)} />
        </div>
        {version !== null && (
          <div class="stage">
            <div class={`vars size-${size} ${shownVariants.length > 1 ? `many n${shownVariants.length}` : ""}`}>
              {shownVariants.map((one) => (
                <VariantBox
                  key={one.id}
                  variant={one}
                  isKept={one.index === chosen}
                  isAlone={version.variants.length === 1}
                  keep={() => keep(one.index)}
                  isChoosing={choosing === one.index}
                  isTaken={picked !== null && one.index === chosen}
                  choose={() => setChoosing(choosing === one.index ? -1 : one.index)}
                  onPicked={(found) => {
                    setChoosing(-1);
                    setPicked(found);
                    keep(one.index);
                    document.getElementById("wish")?.focus();
                  }}
                  onLeft={() => setChoosing(-1)}
                />
              ))}
            </div>
            <Drawer variant={version.variants[chosen]} before={parentOf(versions, version)} number={versions.indexOf(version) + 1} />
          </div>
        )}
      </div>
    </>
  );
}

const narrow = matchMedia("(max-width: 899px)");
const isNarrow = signal(narrow.matches);
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches));

function parentOf(versions: Version[], version: Version): Variant | undefined {
  return versions.flatMap((one) => one.variants).find((one) => one.id === version.parent);
}

/** Which variant the next version goes on from: the one that it did go on from, the one that was marked, or the first. */
function keptIn(versions: Version[], version: Version): number {
  const next = versions[versions.indexOf(version) + 1];
  const follows = version.variants.findIndex((one) => one.id === next?.parent);
  return follows >= 0 ? follows : Math.max(0, version.variants.findIndex((one) => one.isKept));
}

const MOST_SAID = 600; // characters of an answer that is shown in the place of a page

function Gone({ problem }: { problem: Problem | null }): VNode {
  return (
    <div class="none big">
      <span class="ico">
        <Icon name="search" />
      </span>
      <b class="strong">There is no such page</b>
      <p>{shown(problem?.message ?? "")}</p>
      <a class="btn sm" href={address("build")}>
        Build another
      </a>
    </div>
  );
}

function WritingPill({ version }: { version: Version }): VNode | null {
  for (const one of version.variants) changed(one);
  const open = version.variants.filter((one) => phaseOf(one.run) !== "finished");
  const letters = open.map((one) => one.letter).join(" and ");
  const words = open.length === 0 ? "" : version.variants.length === 1 ? "Being written" : `${open.length === 1 ? "Variant" : "Variants"} ${letters} ${open.length === 1 ? "is" : "are"} being written`;
  useEffect(() => announce(words === "" ? "All variants are done" : words), [words]);
  return words === "" ? null : (
    <span class="pill accent hide-phone">
      <Spinner /> {words}
    </span>
  );
}

function stateOf(variant: Variant): "queued" | "writing" | "done" | "failed" | "cancelled" {
  const phase = phaseOf(variant.run);
  if (phase === "queued") return "queued";
  if (phase !== "finished") return "writing";
  const reason = variant.run.end?.reason;
  return reason === "failed" || reason === "interrupted" ? "failed" : reason === "cancelled" ? "cancelled" : "done";
}

interface VariantProps {
  variant: Variant;
  isKept: boolean;
  isAlone: boolean;
  keep: () => void;
  isChoosing: boolean;
  isTaken: boolean;
  choose: () => void;
  onPicked: (picked: Picked) => void;
  onLeft: () => void;
}

function VariantBox({ variant, isKept, isAlone, keep, isChoosing, isTaken, choose, onPicked, onLeft }: VariantProps): VNode {
  changed(variant);
  const { run } = variant;
  const state = stateOf(variant);
  const all = run.usage.input + run.usage.output;
  const words = [plural(run.usage.rounds, "round"), all > 0 ? tokens(all) : "", spent(run.usage)].filter((one) => one !== "").join(" · ");
  const isOpen = state === "queued" || state === "writing";
  return (
    <section class={isKept && !isAlone ? "var kept" : "var"} aria-label={`Variant ${variant.letter}`}>
      <header>
        <span class="let">{variant.letter}</span>
        <span class="strong cut">{shown(run.model.replace(/^[\w-]+:/, ""))}</span>
        <span class="small t3 num cut grow">{words}</span>
        {state === "failed" && <span class="pill fail"><Icon name="alert" small /> Failed</span>}
        {state === "cancelled" && <span class="pill"><Icon name="ban" small /> Stopped</span>}
        <button type="button" class={isChoosing ? "ic sm on" : "ic sm"} aria-pressed={isChoosing} aria-label={`Choose an element of variant ${variant.letter}`} title="Choose an element" disabled={variant.code === ""} onClick={choose}>
          <Icon name="pointer" small />
        </button>
        <a class="ic sm" aria-label={`Run of variant ${variant.letter}`} title="Open run" href={address("runs", variant.id)}>
          <Icon name="runs" small />
        </a>
        {isOpen ? (
          <button type="button" class="btn sm" onClick={() => void api.cancel(variant.id).catch(() => undefined)}>
            <Icon name="stop" small /> Stop
          </button>
        ) : (
          !isAlone && (
            <button type="button" class={isKept ? "btn sm" : "btn sm ink"} aria-pressed={isKept} onClick={keep}>
              {isKept && <Icon name="check" small />} {isKept ? "Kept" : `Keep ${variant.letter}`}
            </button>
          )
        )}
      </header>
      <div class={state === "writing" ? "prog live" : "prog"} aria-hidden="true">
        <i />
      </div>
      <div class="frame-box">
        {variant.code === "" ? (
          <div class="none">
            {isOpen ? <Spinner /> : <Icon name={state === "failed" ? "alert" : "file"} />}
            <p>{state === "queued" ? "In the queue" : isOpen ? "The page will be here as soon as it is being written." : state === "failed" ? `${sentence(shown(run.end?.message ?? "The model failed"))}.` : `It has written no page.${answerOf(run) === "" ? "" : " It said:"}`}</p>
            {!isOpen && answerOf(run) !== "" && <blockquote class="t2 said-instead">{shown(answerOf(run).slice(0, MOST_SAID))}{answerOf(run).length > MOST_SAID ? "…" : ""}</blockquote>}
          </div>
        ) : (
          <Preview name={`variant ${variant.letter}`} code={variant.code} isWhole={variant.isWhole} isChoosing={isChoosing} isTaken={isTaken} onPicked={onPicked} onLeft={onLeft} />
        )}
      </div>
      {state === "failed" && variant.code !== "" && <p class="small fail var-foot" role="alert">{shown(run.end?.message ?? "The model failed.")} What it had written stays.</p>}
    </section>
  );
}

function Versions({ versions, current }: { versions: Version[]; current: Version | null }): VNode {
  const newest = versions.at(-1);
  const box = useRef<HTMLOListElement>(null);
  // Where there is little room for the list, the version that is shown is in sight.
  useEffect(() => {
    const row = box.current?.querySelector<HTMLElement>(".ver.now");
    if (box.current !== null && row !== null && row !== undefined) box.current.scrollTop = row.offsetTop - box.current.offsetTop - 10;
  }, [current?.group, versions.length]);
  return (
    <ol ref={box} class="vers" aria-label="Versions">
      {versions.map((one, at) => {
        for (const variant of one.variants) changed(variant);
        const next = versions[at + 1];
        const keptOne = one.variants.find((variant) => variant.id === next?.parent);
        const sum = one.variants.reduce((total, variant) => total + variant.run.usage.cost, 0);
        const started = one.variants[0]?.run.startedAt ?? 0;
        const isOpen = one.variants.some((variant) => phaseOf(variant.run) !== "finished");
        const facts = [keptOne === undefined ? plural(one.variants.length, "variant") : `kept ${keptOne.letter}`, started > 0 ? when(started, now.value * 1000) : "", sum > 0 ? cost(sum) : ""].filter((word) => word !== "");
        return (
          <li key={one.group} class={one === current ? "ver now" : "ver"}>
            <span class="knot-v" aria-hidden="true">{at + 1}</span>
            <a href={address("build", newest?.group ?? "", one === newest ? {} : { v: String(at + 1) })} aria-current={one === current ? "true" : undefined}>
              <span class="vh">Version {at + 1}: </span>
              {shown(askedFor(one)) || "…"}
            </a>
            <Shown version={one} />
            {isOpen ? (
              <div class="ver-facts accent"><Spinner /> {progressOf(one)}</div>
            ) : (
              <div class="ver-facts">{facts.join(" · ")}</div>
            )}
          </li>
        );
      })}
    </ol>
  );
}

/** "A is done, B is at round 5". */
function progressOf({ variants }: Version): string {
  return variants.map((one) => (phaseOf(one.run) === "finished" ? `${one.letter} is ${stateOf(one)}` : `${one.letter} is at round ${Math.max(1, one.run.steps.filter((step) => step.kind === "round").length)}`)).join(", ");
}

/** The pictures that a version was asked for with. */
function Shown({ version }: { version: Version }): VNode | null {
  const addresses = (version.variants[0]?.run.question?.parts ?? []).flatMap((part) => (part.type === "image" && /^data:image\/(png|jpeg|webp|gif);/.test(part.url) ? [part.url] : []));
  return addresses.length === 0 ? null : (
    <div class="ver-pictures">
      {addresses.map((one, at) => (
        <img key={at} src={one} alt={`Picture ${at + 1}`} />
      ))}
    </div>
  );
}

function Start(): VNode {
  const list = recent();
  return (
    <div class="build-start">
      <span class="ico">
        <Icon name="layout" />
      </span>
      <b class="strong">Describe a page, or drop a picture of one</b>
      <p class="t2">Two variants are written side by side while you watch.</p>
      <button type="button" class="btn sm ink" onClick={() => {
        const field = document.getElementById("wish");
        if (!(field instanceof HTMLTextAreaElement)) return;
        field.value = TRY;
        field.dispatchEvent(new Event("input", { bubbles: true }));
        field.focus();
      }}>
        Try: a tram stop’s departures
      </button>
      {list.length > 0 && (
        <div class="recent">
          <div class="group">Built in this browser</div>
          <div class="list">
            {list.map((one) => (
              <a key={one.group} href={address("build", one.group)}>
                <span class="cut">{shown(one.title)}</span>
                <span class="when">{when(one.at, now.value * 1000)}</span>
              </a>
            ))}
          </div>
        </div>
      )}
    </div>
  );
}

function Download({ variant }: { variant: Variant | undefined }): VNode {
  const [problem, setProblem] = useState("");
  if (variant !== undefined) changed(variant);
  const save = async () => {
    if (variant === undefined) return;
    setProblem("");
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await api.exportPage(variant.code));
      link.download = "page.zip";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <>
      {problem !== "" && <span class="small fail cut" role="alert">{shown(problem)}</span>}
      <button type="button" class="btn sm" disabled={variant === undefined || variant.code === ""} onClick={() => void save()}>
        <Icon name="download" small /> <span class="hide-phone">Download</span>
      </button>
    </>
  );
}
