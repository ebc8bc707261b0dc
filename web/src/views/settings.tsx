// Settings of a session: what goes along with its next request. A person can be stricter than the server, never less strict.
import type { VNode } from "preact";
import { plural, tokens, whole } from "../format";
import { facts, mcpServers, serverTools } from "../store/server";
import { change, settings } from "../store/session";
import { DEFAULTS, type SessionSettings, type Theme, setTheme, theme, usesLetters, remember } from "../store/settings";
import { labelOf } from "../tools";
import { shown } from "../visible";
import { toolCount } from "./composer";
import { Icon } from "./icon";
import { openPane } from "./panes";

export function SettingsPane(): VNode {
  const chosen = settings.value;
  const server = facts.value;
  const features = server?.features;
  const own = (server?.tools ?? []).filter((name) => !name.startsWith("mistralrs_"));
  const asks = chosen.askFirst || server?.permission === "ask";
  const mode = server?.permission === "deny" ? "denied" : asks ? "asks" : "runs";
  const possible = own.length + Number(features?.python ?? false) + Number(features?.shell ?? false) + Number(features?.search ?? false);
  return (
    <>
      <section class="pane-head">
        <h2>
          Settings of this session
          <button type="button" class="ic sm end" aria-label="Close the settings" onClick={() => openPane("")}>
            <Icon name="x" small />
          </button>
        </h2>
      </section>
      <section>
        <h2>
          Tools <span class="t3 num">{toolCount()} of {possible}</span>
        </h2>
        {features?.python && <Switch label="python" isOn={chosen.python} mode={mode} set={(python) => change({ python })} />}
        {features?.shell && <Switch label="shell" isOn={chosen.shell} mode={mode} set={(shell) => change({ shell })} />}
        {features?.search && (
          <Switch label="web_search" isOn={features.search_always || chosen.search} isFixed={features.search_always} mode={mode} set={(search) => change({ search })} />
        )}
        {own.map((name) => {
          const told = serverTools.value.find((one) => one.name === name);
          // Of a tool that the server does not tell about, only what this session adds is said.
          const does = mode !== "runs" ? mode : told === undefined ? "" : told.approval === "ask" ? "asks" : told.approval === "deny" ? "denied" : "runs";
          return <Switch key={name} label={told?.label ?? labelOf(name)} about={told?.description} from={told?.source.server} isOn isFixed mode={does} set={() => undefined} />;
        })}
        {possible === 0 && <p class="small t3">This server has none. Start it with <code>--agent</code> or <code>--tools FILE.py</code>.</p>}
        <div class="set">
          <Toggle label="Ask me before any tool runs" isOn={asks} isFixed={server?.permission !== "auto"} set={(askFirst) => change({ askFirst })} />
          <span class="grow">Ask before any tool runs</span>
        </div>
        <p class="small t3 hint">You can be stricter than the server, never less strict.</p>
      </section>
      {mcpServers.value.length > 0 && (
        <section>
          <h2>
            MCP servers <span class="t3 num">{mcpServers.value.length}</span>
          </h2>
          {mcpServers.value.map((one) => (
            <div key={one.name} class="set">
              <span class="grow cut">{shown(one.name)}</span>
              <span class={one.state === "connected" ? "row small t3" : "row small wait"}>
                <span class={one.state === "connected" ? "dot ok" : "dot wait"} />
                {one.state === "connected" && typeof one.tools === "number" ? plural(one.tools, "tool") : shown(one.state)}
              </span>
            </div>
          ))}
        </section>
      )}
      <section>
        <h2>Model</h2>
        <div class="kv sliders">
          <Slider name="Temperature" value={chosen.temperature} min={0} max={2} step={0.1} usual={0.7} set={(temperature) => change({ temperature })} />
          <Slider name="Rounds" value={chosen.rounds} min={1} max={server?.max_rounds ?? 64} step={1} usual={server?.rounds ?? 16} set={(rounds) => change({ rounds })} />
          <Slider name="Max. tokens" value={chosen.maxTokens} min={64} max={16_384} step={64} usual={4096} set={(maxTokens) => change({ maxTokens })} />
        </div>
      </section>
      <section>
        <h2>
          Instructions <span class="t3 num">{chosen.instructions === "" ? "" : `about ${tokens(Math.ceil(chosen.instructions.length / 4))} tokens`}</span>
        </h2>
        <textarea class="field area" aria-label="Instructions" rows={4} placeholder="What the model should know or do in every answer" value={chosen.instructions} onInput={(event) => change({ instructions: event.currentTarget.value })} />
        <div class="row pane-acts">
          <button type="button" class="btn sm quiet" disabled={isUsual(chosen)} onClick={() => change({ ...DEFAULTS, model: chosen.model })}>
            Reset
          </button>
        </div>
      </section>
      <section>
        <h2>This page</h2>
        <div class="set">
          <span class="grow">Theme</span>
          <ThemeChoice />
        </div>
        <div class="set">
          <Toggle
            label="Single letters are keys"
            isOn={usesLetters.value}
            set={(isOn) => {
              usesLetters.value = isOn;
              remember("letters", isOn);
            }}
          />
          <span class="grow">Single letters are keys</span>
        </div>
      </section>
    </>
  );
}

function isUsual(chosen: SessionSettings): boolean {
  return JSON.stringify({ ...chosen, model: "" }) === JSON.stringify(DEFAULTS);
}

interface SwitchProps {
  label: string;
  /** What it does, in the words that the model reads. */
  about?: string | undefined;
  /** The MCP server that it is of. */
  from?: string | null | undefined;
  isOn: boolean;
  isFixed?: boolean;
  mode: string;
  set: (isOn: boolean) => void;
}

function Switch({ label, about = "", from = null, isOn, isFixed = false, mode, set }: SwitchProps): VNode {
  return (
    <div class="set">
      <Toggle label={label} isOn={isOn && mode !== "denied"} isFixed={isFixed || mode === "denied"} set={set} />
      <span class="grow tool-words" title={shown(about)}>
        <span class={isOn ? "mono-s cut" : "mono-s cut t2"}>{shown(label)}{from !== null && <span class="t3"> · {shown(from)}</span>}</span>
        {about !== "" && <span class="small t3 cut">{shown(about.split("\n")[0] ?? "")}</span>}
      </span>
      {isOn && (
        <span class={mode === "asks" ? "row small wait" : "row small t2"}>
          {mode === "asks" && <Icon name="shield" small />}
          {mode === "denied" && <Icon name="lock" small />}
          {mode}
        </span>
      )}
    </div>
  );
}

function Toggle({ label, isOn, isFixed = false, set }: { label: string; isOn: boolean; isFixed?: boolean; set: (isOn: boolean) => void }): VNode {
  return <button type="button" class={isOn ? "sw on" : "sw"} role="switch" aria-checked={isOn} aria-label={label} disabled={isFixed} onClick={() => set(!isOn)} />;
}

interface SliderProps {
  name: string;
  value: number | null;
  min: number;
  max: number;
  step: number;
  usual: number;
  set: (value: number | null) => void;
}

function Slider({ name, value, min, max, step, usual, set }: SliderProps): VNode {
  return (
    <>
      <span>{name}</span>
      <input type="range" class={value === null ? "sl unset" : "sl"} aria-label={name} aria-valuetext={value === null ? "as the server has it" : String(value)} min={min} max={max} step={step} value={value ?? usual} onInput={(event) => set(Number(event.currentTarget.value))} />
      <button type="button" class="plain num" title="As the server has it" onClick={() => set(null)}>
        {value === null ? "server" : whole(value)}
      </button>
    </>
  );
}

const THEMES: { id: Theme; icon: string; label: string }[] = [
  { id: "system", icon: "system", label: "As the system has it" },
  { id: "light", icon: "sun", label: "Light" },
  { id: "dark", icon: "moon", label: "Dark" },
];

export function ThemeChoice(): VNode {
  return (
    <span class="seg" role="group" aria-label="Theme">
      {THEMES.map((one) => (
        <button key={one.id} type="button" aria-pressed={theme.value === one.id} aria-label={one.label} title={one.label} onClick={() => setTheme(one.id)}>
          <Icon name={one.icon} small />
        </button>
      ))}
    </span>
  );
}
