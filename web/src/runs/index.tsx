// Runs: the list, one of them, or two side by side. A chunk of its own.
import type { VNode } from "preact";
import { place } from "../router";
import "../styles/runs.css";
import "../styles/run.css";
import { Compare } from "./compare";
import { Runs } from "./list";
import { RunView } from "./run";

export function RunsView(): VNode {
  const { id } = place.value;
  if (id === "") return <Runs />;
  return id === "compare" ? <Compare /> : <RunView key={id} id={id} />;
}
