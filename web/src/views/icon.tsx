import type { VNode } from "preact";
import sprite from "virtual:sprite";

interface IconProps {
  name: string;
  small?: boolean;
  class?: string;
}

/** A picture beside a word, or on a control that has a label. */
export function Icon({ name, small = false, class: more = "" }: IconProps): VNode {
  return (
    <svg class={`i${small ? " s" : ""} ${more}`} aria-hidden="true">
      <use href={`${sprite}#${name}`} />
    </svg>
  );
}

export function Mark(): VNode {
  return (
    <svg class="mark" viewBox="0 0 20 20" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round">
      <path d="M16.6 8.2A7 7 0 1 1 13 3.7" />
      <circle class="mark-dot" cx="15.6" cy="5.4" r="1.9" stroke="none" />
    </svg>
  );
}

export function Spinner({ tone = "" }: { tone?: string }): VNode {
  return (
    <span class={`spin ${tone}`} aria-hidden="true">
      <i />
      <i />
      <i />
    </span>
  );
}
