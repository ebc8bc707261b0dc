// A view whose code comes when it is first opened. Until then the place is empty; where the code cannot be had, a button asks again.
import { signal } from "@preact/signals";
import type { ComponentType, VNode } from "preact";
import { Icon, Spinner } from "./icon";

type Loaded = ComponentType | "failed" | null;

export function lazy(load: () => Promise<ComponentType>): () => VNode {
  const found = signal<Loaded>(null);
  let isAsked = false;
  const ask = () => {
    isAsked = true;
    found.value = null;
    load().then(
      (view) => {
        found.value = view;
      },
      () => {
        found.value = "failed";
      },
    );
  };
  return function Lazy(): VNode {
    if (!isAsked) ask();
    const View = found.value;
    if (View === null) {
      return (
        <div class="none">
          <Spinner />
        </div>
      );
    }
    if (View === "failed") {
      return (
        <div class="none big" role="alert">
          <span class="ico">
            <Icon name="plug" />
          </span>
          <b class="strong">This view could not be loaded</b>
          <p>The server does not answer, or has a newer page.</p>
          <button type="button" class="btn sm" onClick={() => location.reload()}>
            Load the page again
          </button>
        </div>
      );
    }
    return <View />;
  };
}
