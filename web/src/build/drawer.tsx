// Under the previews: the code of the kept variant, what differs from the version before, and the steps that made it.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { changed } from "../changes";
import type { DiffLine } from "../diff";
import { roundsOf } from "../fold/state";
import { plural } from "../format";
import { shown } from "../visible";
import { isPhone } from "../views/chat";
import { Copy, Highlighted } from "../views/code";
import { Icon } from "../views/icon";
import { RoundView } from "../views/round";
import type { Variant } from "./project";

type Tab = "code" | "diff" | "steps";
const TABS: { tab: Tab; icon: string; name: string }[] = [
  { tab: "code", icon: "code", name: "Code" },
  { tab: "diff", icon: "diff", name: "Diff" },
  { tab: "steps", icon: "wrench", name: "Steps" },
];
const NOTHING = { retry: () => undefined, pickModel: () => undefined };
const UNCITED = () => null;

export function Drawer({ variant, before, number }: { variant: Variant | undefined; before: Variant | undefined; number: number }): VNode | null {
  const [tab, setTab] = useState<Tab>("code");
  const [isOpen, setOpen] = useState(!isPhone.value); // there, the preview has the room
  const [counts, setCounts] = useState<Counts | null>(null);
  if (variant === undefined) return null;
  changed(variant);
  if (before !== undefined) changed(before);
  return (
    <div class={isOpen ? "drawer open" : "drawer"}>
      <div class="row drawer-head">
        <div class="tabs" role="tablist" aria-label="Code of the kept variant">
          {TABS.map((one) => (
            <button key={one.tab} type="button" role="tab" id={`build-${one.tab}`} aria-controls="drawer-body" aria-selected={tab === one.tab && isOpen} onClick={() => { setTab(one.tab); setOpen(true); }}>
              <Icon name={one.icon} small /> {one.name}
            </button>
          ))}
        </div>
        <span class="end row small t2">
          <span class="pill hide-phone">Variant {variant.letter}{before === undefined ? "" : `: ${number - 1} → ${number}`}</span>
          <span class="mono-s hide-phone">index.html</span>
          {tab === "diff" && isOpen && counts !== null && (
            <span class="num strong hide-phone" aria-hidden="true">
              <span class="came">+{counts.came}</span> <span class="went">−{counts.went}</span>
            </span>
          )}
          <Copy text={variant.code} label="Copy the code" />
          <button type="button" class="ic sm" aria-label={isOpen ? "Fold the code" : "Open the code"} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            <Icon name={isOpen ? "chevron-down" : "arrow-up"} small />
          </button>
        </span>
      </div>
      {isOpen && (
        <div id="drawer-body" class="drawer-body" role="tabpanel" aria-labelledby={`build-${tab}`} tabIndex={0}>
          {tab === "code" && <pre class="code">{variant.isWhole ? <Highlighted text={variant.code} language="html" /> : <code>{shown(variant.code)}</code>}</pre>}
          {tab === "diff" && <Diff before={before?.code ?? ""} after={variant.code} isFirst={before === undefined} tell={setCounts} />}
          {tab === "steps" && (
            <div class="steps">
              {roundsOf(variant.run).map((round) => (
                <RoundView key={round.number} run={variant.run} round={round} isLast={false} isLive={variant.run.end === null} isAlone={false} cite={UNCITED} actions={NOTHING} />
              ))}
            </div>
          )}
        </div>
      )}
    </div>
  );
}

const AROUND = 3; // lines that stay on both sides of a change

/** Lines. */
interface Counts {
  came: number;
  went: number;
}

function Diff({ before, after, isFirst, tell }: { before: string; after: string; isFirst: boolean; tell: (counts: Counts | null) => void }): VNode {
  const [lines, setLines] = useState<DiffLine[] | null>(null);
  useEffect(() => {
    let isCurrent = true;
    void import("../diff").then(({ diffLines }) => isCurrent && setLines(diffLines(before, after)));
    return () => {
      isCurrent = false;
    };
  }, [before, after]);
  useEffect(() => {
    const count = (kind: DiffLine["kind"]) => lines?.filter((line) => line.kind === kind).length ?? 0;
    tell(lines === null || isFirst ? null : { came: count("new"), went: count("gone") });
  }, [lines]);
  if (isFirst) return <p class="drawer-note t3">This is the first version: all of it is new.</p>;
  if (lines === null) return <p class="drawer-note t3">Comparing…</p>;
  const added = lines.filter((line) => line.kind === "new").length;
  const gone = lines.filter((line) => line.kind === "gone").length;
  if (added + gone === 0) return <p class="drawer-note t3">Nothing differs from the version before.</p>;
  let old = 0;
  let fresh = 0;
  let isCut = false;
  return (
    <>
      <p class="vh">{plural(added, "line")} came, {plural(gone, "line")} went</p>
      {lines.map((line, at) => {
        if (line.kind !== "new") old += 1;
        if (line.kind !== "gone") fresh += 1;
        const isNear = line.kind !== "same" || lines.slice(Math.max(0, at - AROUND), at + AROUND + 1).some((one) => one.kind !== "same");
        if (!isNear) {
          const starts = !isCut;
          isCut = true;
          return starts ? <div key={at} class="dl hunk">@@ {old} @@</div> : null;
        }
        isCut = false;
        return (
          <div key={at} class={`dl ${line.kind}`}>
            <span>{line.kind === "new" ? "" : old}</span>
            <span>{line.kind === "gone" ? "" : fresh}</span>
            <span>{line.kind === "new" ? "+" : line.kind === "gone" ? "−" : ""}</span>
            <span>{line.pieces.map((piece, number) => (piece.isChanged ? <mark key={number}>{shown(piece.text)}</mark> : shown(piece.text)))}</span>
          </div>
        );
      })}
    </>
  );
}
