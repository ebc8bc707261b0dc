// What every box of Operate is made of: a panel with its title, what it says when it has nothing, and the tiles above them.
import type { ComponentChildren, VNode } from "preact";
import { shown } from "../visible";
import { Icon } from "../views/icon";
import type { Box } from "./data";

export function Tile({ name, value, more, dot = "", series }: { name: string; value: string | null; more: string; dot?: string; series?: (number | null)[] | undefined }): VNode {
  return (
    <div class="tile">
      <div class="tile-name">
        {dot !== "" && <span class={`dot ${dot}`} />} {name}
      </div>
      <div class="tile-value num">
        {value === null ? <span class="t3 tile-none">not measured yet</span> : value} <small>{value === null ? "" : more}</small>
      </div>
      {series !== undefined && series.length > 1 && series.some((one) => (one ?? 0) > 0) && <Sparkline values={series} tone={dot} />}
    </div>
  );
}

/** It begins where something is known. */
function Sparkline({ values, tone }: { values: (number | null)[]; tone: string }): VNode {
  const known = values.map((value) => value ?? 0);
  const most = Math.max(...known, 1e-9);
  const first = Math.min(values.findIndex((value) => value !== null), values.length - 2); // a line has two ends
  const x = (at: number) => ((100 * at) / (values.length - 1)).toFixed(2);
  const points = known.map((value, at) => `${x(at)},${(28 - (26 * value) / most).toFixed(2)}`).slice(first).join(" ");
  return (
    <svg class={`spark ${tone}`} viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`${x(first)},30 ${points} 100,30`} />
      <polyline points={points} />
    </svg>
  );
}

interface PanelProps {
  title: string;
  more?: string;
  icon?: string;
  link?: { href: string; words: string };
  act?: { words: string; isOpen: boolean; press: () => void };
  box?: Box<unknown>;
  children: ComponentChildren;
}

export function Panel({ title, more = "", icon, link, act, box, children }: PanelProps): VNode {
  const problem = box?.problem ?? null;
  return (
    <section class="op-box" aria-label={title}>
      <h2>
        {icon !== undefined && <Icon name={icon} small class="wait" />} {title} <span class="t3">{more}</span>
        {link !== undefined && <a class="lnk" href={link.href}>{link.words}</a>}
        {act !== undefined && <button type="button" class="lnk" aria-expanded={act.isOpen} onClick={act.press}>{act.words}</button>}
      </h2>
      {problem !== null && <p class="small fail" role="alert">{shown(problem.message)}</p>}
      {box !== undefined && box.value === null && problem === null ? <div class="skeleton" aria-hidden="true" /> : children}
    </section>
  );
}

export function Empty({ words }: { words: ComponentChildren }): VNode {
  return <p class="small t3 op-empty">{words}</p>;
}
