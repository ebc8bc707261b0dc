// Keys and budgets: who may use the server, and what they may spend.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { announce } from "../announce";
import { type Budget, type ServerKey, api } from "../api";
import { now } from "../clock";
import { cost, when, whole } from "../format";
import { facts, me } from "../store/server";
import { shown } from "../visible";
import { Copy } from "../views/code";
import { Meter, amount, budgetName } from "../views/details";
import type { OperateData, OperateOwner } from "./data";
import { Panel, Empty } from "./panel";

/** What this key, and its owner, may spend. */
export function OwnBudgets({ data }: { data: OperateData }): VNode {
  if (!data.hasBudgets) {
    return (
      <Panel title="Budgets">
        <Empty words={facts.value?.has_keys === false ? "This server has no keys: all who reach it share one owner." : "This server does not limit what its keys spend."} />
      </Panel>
    );
  }
  const box = data.budgets.value;
  const list = box.value ?? [];
  return (
    <Panel title="Budgets" more="of this key and its owner" box={box}>
      {list.length === 0 ? <Empty words="Nothing limits what you spend." /> : <OwnLimits data={data} />}
    </Panel>
  );
}

/** Limits of this key and its owner, in whatever they are counted. */
function OwnLimits({ data }: { data: OperateData }): VNode | null {
  const owners = data.figures.value.value?.owners ?? [];
  // What stands in the table of owners already is not said again.
  const isTold = (one: Budget) => one.scope === "owner" && one.per === "month" && one.unit === "usd" && owners.some((owner) => owner.owner === me.value?.owner && owner.budget !== null);
  const list = (data.budgets.value.value ?? []).filter((one) => !isTold(one));
  if (list.length === 0) return null;
  return (
        <ul class="op-list own-limits">
          {list.map((one) => {
            const words = `${amount(one, one.spent)} of ${amount(one, one.limit)}${one.unit === "usd" ? "" : ` ${one.unit.replace("_", " ")}`}`;
            return (
              <li key={`${one.scope} ${one.per} ${one.unit}`}>
                <span class="small t2 meter-name cut">{shown(one.scope === "owner" ? (me.value?.owner ?? "owner") : `this ${one.scope}`)}{one.per === "total" ? "" : `, a ${shown(one.per)}`}</span>
                <span class="grow"><Meter share={one.limit > 0 ? (one.spent + one.reserved) / one.limit : 1} label={`${budgetName(one)}, ${one.unit}`} words={words} /></span>
                <span class="small num">{words}</span>
              </li>
            );
          })}
        </ul>
  );
}

export function Keys({ data }: { data: OperateData }): VNode {
  const box = data.keys.value;
  const [chosen, setChosen] = useState("");
  const [problem, setProblem] = useState("");
  const [isMaking, setMaking] = useState(false);
  const good = (key: ServerKey) => key.revoked_at === null && (key.expires_at === null || key.expires_at > now.value);
  const list = (box.value ?? []).filter(good);
  const revoke = (key: ServerKey) => {
    setChosen("");
    setProblem("");
    api
      .revokeKey(key.id)
      .then(() => announce(`The key ${key.id} is revoked`), (error: unknown) => setProblem(String(error instanceof Error ? error.message : error)))
      .finally(() => void data.refresh());
  };
  // Without the right to see keys, an operator sees their owners.
  const owners = data.figures.value.value?.owners ?? [];
  const keysOf = (owner: string) => list.filter((key) => key.owner === owner);
  const rows = [...new Set(data.mayManageKeys ? list.map((key) => key.owner) : owners.map((one) => one.owner))].flatMap((owner): { owner: string; figures: OperateOwner | null; key: ServerKey | null }[] => {
    const figures = owners.find((one) => one.owner === owner) ?? null;
    const keys = keysOf(owner);
    return keys.length === 0 ? [{ owner, figures, key: null }] : keys.map((key, at) => ({ owner, figures: at === 0 ? figures : null, key }));
  });
  return (
    <Panel title="Keys and budgets" more="this month" {...(data.mayManageKeys ? { act: { words: "New key", isOpen: isMaking, press: () => setMaking(!isMaking) } } : {})} box={data.mayManageKeys ? box : data.figures.value}>
      {isMaking && <NewKey made={() => void data.refresh()} close={() => setMaking(false)} />}
      {problem !== "" && <p class="small fail" role="alert">{shown(problem)}</p>}
      <table class="op-keys">
        <thead>
          <tr>
            <th scope="col">Owner</th>
            {data.mayManageKeys && <th scope="col" class="hide-phone">Key</th>}
            <th scope="col" class="r hide-phone">Running</th>
            <th scope="col" class="r hide-phone">Runs</th>
            <th scope="col">Spent</th>
            <th scope="col" class="r"><span class="vh">Of the budget</span></th>
            {data.mayManageKeys && <th scope="col"><span class="vh">Revoke</span></th>}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ owner, figures, key }) => (
            <tr key={key?.id ?? owner}>
              <td>{shown(owner)}</td>
              {data.mayManageKeys && (
                <td class="hide-phone">
                  {key !== null && (
                    <span class="mono-s t2" title={`${shown(key.id)}, ${key.last_used_at === null ? "never used" : `last used ${when(key.last_used_at, now.value * 1000)}`}`}>
                      {shown(shortKey(key.id))}
                    </span>
                  )}
                  {(key?.scopes ?? []).length > 0 && <span class="small t3"> {shown((key?.scopes ?? []).join(" "))}</span>}
                </td>
              )}
              <td class="r hide-phone">{figures?.running ?? ""}</td>
              <td class="r hide-phone">{figures === null ? "" : whole(figures.runs)}</td>
              <td class="main-cell">{figures !== null && figures.budget !== null && figures.spent !== null && <Meter share={figures.spent / figures.budget} reserved={figures.reserved / figures.budget} label={`Budget of ${shown(owner)}`} words={`${cost(figures.spent)} of ${cost(figures.budget)}`} />}</td>
              <td class={`r ${toneOf(figures)}`}>{figures?.spent == null ? "" : figures.budget === null ? (figures.spent === 0 ? <span class="t3">–</span> : cost(figures.spent)) : `${cost(figures.spent)} / ${cost(figures.budget)}`}</td>
              {data.mayManageKeys && (
                <td class="r">
                  {key === null ? null : key.id === me.value?.key_id ? (
                    <span class="small t3">in use here</span>
                  ) : chosen === key.id ? (
                    <button type="button" class="btn sm danger" onClick={() => revoke(key)}>Revoke for good</button>
                  ) : (
                    <button type="button" class="btn sm quiet" aria-label={`Revoke ${key.id} of ${shown(owner)}`} onClick={() => setChosen(key.id)}>Revoke</button>
                  )}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {data.hasBudgets && <OwnLimits data={data} />}
    </Panel>
  );
}

function shortKey(id: string): string {
  return id.length <= 14 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}

function toneOf(figures: OperateOwner | null): string {
  if (figures === null || figures.budget === null || figures.spent === null) return "";
  const share = (figures.spent + figures.reserved) / figures.budget;
  return share >= 1 ? "fail" : share >= 0.9 ? "wait" : "";
}

const RIGHTS = [
  { scope: "", words: "Chat, Build and own runs" },
  { scope: "operate", words: "… and see what the server does" },
  { scope: "operate:write", words: "… and change it: keys, MCP servers, runs" },
];
const ENDS = [
  { days: 0, words: "never" },
  { days: 7, words: "in 7 days" },
  { days: 30, words: "in 30 days" },
  { days: 365, words: "in a year" },
];

/** A key is shown once, when it is made: the server keeps only what it takes to know it again. */
function NewKey({ made, close }: { made: () => void; close: () => void }): VNode {
  const [owner, setOwner] = useState("");
  const [scope, setScope] = useState("");
  const [days, setDays] = useState(0);
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const make = () => {
    setProblem("");
    api.createKey({ owner: owner.trim(), scopes: scope === "" ? [] : [scope], ...(days === 0 ? {} : { expires_in: days * 86_400 }) }).then(
      (created) => {
        setKey(created.key);
        announce(`A key of ${created.owner} is made`);
        made();
      },
      (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)),
    );
  };
  if (key !== "") {
    return (
      <div class="new-key" role="status">
        <p class="small">
          <b class="strong">The key of {shown(owner)}.</b> It is shown only now: copy it.
        </p>
        <div class="row">
          <input class="field grow mono" readOnly aria-label="The new key" value={key} onFocus={(event) => event.currentTarget.select()} />
          <Copy text={key} label="Copy the key" />
          <button type="button" class="btn sm" onClick={close}>Done</button>
        </div>
      </div>
    );
  }
  return (
    <form
      class="new-key"
      onSubmit={(event) => {
        event.preventDefault();
        make();
      }}
    >
      <div class="row">
        <label class="grow"><span class="small t2">Owner</span><input class="field" required value={owner} onInput={(event) => setOwner(event.currentTarget.value)} /></label>
        <label class="grow"><span class="small t2">May</span>
          <select class="field" value={scope} onChange={(event) => setScope(event.currentTarget.value)}>
            {RIGHTS.map((one) => <option key={one.scope} value={one.scope}>{one.words}</option>)}
          </select>
        </label>
        <label><span class="small t2">Ends</span>
          <select class="field" value={days} onChange={(event) => setDays(Number(event.currentTarget.value))}>
            {ENDS.map((one) => <option key={one.days} value={one.days}>{one.words}</option>)}
          </select>
        </label>
      </div>
      {problem !== "" && <p class="small fail" role="alert">{shown(problem)}</p>}
      <div class="row">
        <button type="submit" class="btn ink sm">Make the key</button>
        <button type="button" class="btn sm quiet" onClick={close}>Cancel</button>
      </div>
    </form>
  );
}
