// Between the fold and the components: objects that have changed → their readers are drawn again, once for each frame.
//
// The fold writes into plain objects and says which (`touch`). A component that shows one reads `changed(object)`. A hidden tab
// folds, and draws when it is shown. A component that is given the same object again is not drawn again by its parent: each reads
// `changed` of what it shows.
import { type Signal, batch, signal } from "@preact/signals";

const versions = new WeakMap<object, Signal<number>>();
let dirty = new Set<object>();
let isPlanned = false;

/** To be read by whatever shows the object. */
export function changed(object: object): number {
  return versionOf(object).value;
}

export function versionOf(object: object): Signal<number> {
  let version = versions.get(object);
  if (version === undefined) {
    version = signal(0);
    versions.set(object, version);
  }
  return version;
}

export function touch(object: object): void {
  dirty.add(object);
  if (isPlanned) return;
  isPlanned = true;
  plan();
}

/** Draw what has changed, now. */
export function flush(): void {
  isPlanned = false;
  const objects = dirty;
  dirty = new Set();
  batch(() => {
    for (const object of objects) {
      const version = versions.get(object);
      if (version !== undefined) version.value += 1;
    }
  });
}

function plan(): void {
  if (typeof document === "undefined") flush();
  else if (document.hidden) document.addEventListener("visibilitychange", () => requestAnimationFrame(flush), { once: true });
  else requestAnimationFrame(flush);
}
