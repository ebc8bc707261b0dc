// Settings of a session: what goes along with its next request. A person can be stricter than the server, never less strict.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type ServerTool, api } from "../api";
import { plural, tokens, whole } from "../format";
import { facts, mcpServers, serverTools } from "../store/server";
import { change, live, sessionId, settings } from "../store/session";
import { DEFAULTS, type SessionSettings, type Theme, setTheme, theme, usesLetters, remember } from "../store/settings";
import { labelOf } from "../tools";
import { shown } from "../visible";
import { toolCount } from "./composer";
import { Icon } from "./icon";
import { openLayer, openPane } from "./panes";

export function SettingsPane(): VNode {
  const chosen = settings.value;
  const server = facts.value;
  const features = server?.features;
  const own = (server?.tools ?? []).filter((name) => !name.startsWith("mistralrs_"));
  const asks = chosen.askFirst || server?.permission === "ask";
  const mode = server?.permission === "deny" ? "denied" : asks ? "asks" : "runs";
  const count = toolCount();
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
          Tools <span class="t3 num">{count} of {possible}</span>
        </h2>
        {features?.python && <Switch label="python" isOn={chosen.python} mode={mode} set={(python) => change({ python })} />}
        {features?.shell && <Switch label="shell" isOn={chosen.shell} mode={mode} set={(shell) => change({ shell })} />}
        {features?.search && (
          <Switch label="web_search" isOn={features.search_always || chosen.search} isFixed={features.search_always} mode={mode} set={(search) => change({ search })} />
        )}
        {own.filter((name) => (toolOf(name)?.source.server ?? null) === null).map((name) => {
          const told = toolOf(name);
          // Of a tool that the server does not tell about, only what this session adds is said.
          const does = mode !== "runs" ? mode : told === undefined ? "" : told.approval === "ask" ? "asks" : told.approval === "deny" ? "denied" : "runs";
          return <Switch key={name} label={told?.label ?? labelOf(name)} about={told?.description} isOn={!chosen.off.includes(name)} mode={does} set={(isOn) => turn(name, isOn)} />;
        })}
        {possible === 0 && <p class="small t3">This server has none. Start it with <code>--agent</code> or <code>--tools FILE.py</code>.</p>}
        <div class="set">
          <Toggle label="Ask me before any tool runs" isOn={asks} isFixed={server?.permission !== "auto"} set={(askFirst) => change({ askFirst })} />
          <span class="grow">Ask before any tool runs</span>
        </div>
        <p class="small t3 hint">You can be stricter than the server, never less strict.</p>
      </section>
      <Approved session={sessionId.value} isLive={live.value !== null} />
      {mcpServers.value.length > 0 && (
        <section>
          <h2>
            MCP servers <span class="t3 num">{mcpServers.value.filter((one) => one.state === "connected" && !chosen.off.includes(`mcp:${one.name}`)).length} of {mcpServers.value.length}</span>
          </h2>
          {mcpServers.value.map((one) => (
            <div key={one.name} class="set">
              <Toggle label={one.name} isOn={one.state !== "disabled" && !chosen.off.includes(`mcp:${one.name}`)} isFixed={one.state === "disabled"} set={(isOn) => turn(`mcp:${one.name}`, isOn)} />
              <span class="grow cut">{shown(one.name)}</span>
              <span class={`row small ${one.state === "connected" || one.state === "disabled" ? "t3" : one.state === "failed" ? "fail" : "wait"}`}>
                <span class={`dot ${one.state === "connected" ? "ok" : one.state === "disabled" ? "off" : one.state === "failed" ? "fail" : "wait"}`} />
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
          <button type="button" class="btn sm" onClick={() => openLayer("sent")}>
            <Icon name="eye" small /> What will be sent
          </button>
          <button type="button" class="btn sm quiet" disabled={isUsual(chosen)} onClick={() => change({ ...DEFAULTS, model: chosen.model, inputs: chosen.inputs })}>
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

/** What a person has approved for the whole session; taken back, its next call is asked about again. */
function Approved({ session, isLive }: { session: string; isLive: boolean }): VNode | null {
  const [tools, setTools] = useState<string[]>([]);
  const keep = (found: { tool: string }[]) => setTools([...new Set(found.map((one) => one.tool))]);
  useEffect(() => {
    // A session is written down when its first run ends: until then there is nothing to ask for.
    if (session === "" || isLive) setTools([]);
    else void api.approvedIn(session).then(keep, () => setTools([]));
  }, [session, isLive]);
  if (tools.length === 0) return null;
  return (
    <section>
      <h2>
        Approved in this session <span class="t3 num">{tools.length}</span>
      </h2>
      {tools.map((tool) => (
        <div key={tool} class="set">
          <span class="grow mono-s cut">{shown(labelOf(tool))}</span>
          <button type="button" class="lnk small" aria-label={`Take back the approval of ${shown(labelOf(tool))}`} onClick={() => void api.takeBack(session, tool).then(keep, () => undefined)}>
            take back
          </button>
        </div>
      ))}
    </section>
  );
}

function toolOf(name: string): ServerTool | undefined {
  return serverTools.value.find((one) => one.name === name);
}

/** A tool, or an MCP server as `mcp:NAME`, that this session has or goes without. */
function turn(name: string, isOn: boolean): void {
  const others = settings.value.off.filter((one) => one !== name);
  change({ off: isOn ? others : [...others, name] });
}

function isUsual(chosen: SessionSettings): boolean {
  return JSON.stringify({ ...chosen, model: "", inputs: {} }) === JSON.stringify(DEFAULTS);
}

interface SwitchProps {
  label: string;
  /** What it does, in the words that the model reads. */
  about?: string | undefined;
  isOn: boolean;
  isFixed?: boolean;
  mode: string;
  set: (isOn: boolean) => void;
}

function Switch({ label, about = "", isOn, isFixed = false, mode, set }: SwitchProps): VNode {
  return (
    <div class="set">
      <Toggle label={label} isOn={isOn && mode !== "denied"} isFixed={isFixed || mode === "denied"} set={set} />
      <span class="grow tool-words" title={shown(about.split("\n")[0] ?? "")}>
        <span class={isOn ? "mono-s cut" : "mono-s cut t2"}>{shown(label)}</span>
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
      <button type="button" class={value === null ? "plain num t3" : "plain num"} title="As the server has it" onClick={() => set(null)}>
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
