// Keys and budgets: who may use the server, and what they may spend.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { announce } from "../announce";
import { type ServerKey, api } from "../api";
import { now } from "../clock";
import { cost, when } from "../format";
import { facts, me } from "../store/server";
import { shown } from "../visible";
import { Copy } from "../views/code";
import { Meter, amount, budgetName } from "../views/details";
import type { OperateData, OperateKey } from "./data";
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
      {list.length === 0 ? (
        <Empty words="Nothing limits what you spend." />
      ) : (
        <ul class="op-list">
          {list.map((one) => {
            const words = `${amount(one, one.spent)} of ${amount(one, one.limit)}${one.unit === "usd" ? "" : ` ${one.unit.replace("_", " ")}`}`;
            return (
              <li key={`${one.scope} ${one.per} ${one.unit}`}>
                <span class="small t2 meter-name">{shown(one.scope)}{one.per === "total" ? "" : `, a ${shown(one.per)}`}</span>
                <span class="grow"><Meter share={one.limit > 0 ? (one.spent + one.reserved) / one.limit : 1} label={`${budgetName(one)}, ${one.unit}`} words={words} /></span>
                <span class="small num">{words}</span>
              </li>
            );
          })}
        </ul>
      )}
    </Panel>
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
  return (
    <Panel title="Keys" more={list.length === 0 ? "" : String(list.length)} act={{ words: "New key", isOpen: isMaking, press: () => setMaking(!isMaking) }} box={box}>
      {isMaking && <NewKey made={() => void data.refresh()} close={() => setMaking(false)} />}
      {problem !== "" && <p class="small fail" role="alert">{shown(problem)}</p>}
      <table>
        <thead>
          <tr>
            <th scope="col">Owner</th>
            <th scope="col">Key</th>
            <th scope="col" class="hide-phone">Scopes</th>
            <th scope="col" class="r hide-phone">Used</th>
            <th scope="col"><span class="vh">Revoke</span></th>
          </tr>
        </thead>
        <tbody>
          {list.map((key) => (
            <tr key={key.id}>
              <td>{shown(key.owner)}</td>
              <td class="mono-s t2">{shown(key.id)}</td>
              <td class="main-cell small t2 hide-phone" title={shown((key.scopes ?? []).join(" "))}>{shown((key.scopes ?? []).join(" "))}</td>
              <td class="r small t2 hide-phone">{key.last_used_at === null ? "never" : when(key.last_used_at, now.value * 1000)}</td>
              <td class="r">
                {key.id === me.value?.key_id ? (
                  <span class="small t3">in use here</span>
                ) : chosen === key.id ? (
                  <button type="button" class="btn sm danger" onClick={() => revoke(key)}>Revoke for good</button>
                ) : (
                  <button type="button" class="btn sm quiet" aria-label={`Revoke ${key.id} of ${shown(key.owner)}`} onClick={() => setChosen(key.id)}>Revoke</button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
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

export function KeyFigures({ keys }: { keys: OperateKey[] }): VNode {
  return (
    <Panel title="Keys and budgets" more="this month">
        <table>
          <thead>
            <tr>
              <th scope="col">Owner</th>
              <th scope="col" class="hide-phone">Key</th>
              <th scope="col" class="r hide-phone">Running</th>
              <th scope="col">Spent</th>
              <th scope="col" class="r"><span class="vh">Of the budget</span></th>
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <tr key={key.key}>
                <td>{shown(key.owner)}</td>
                <td class="mono-s t2 hide-phone">{shown(key.key)}</td>
                <td class="r hide-phone">{key.running}{key.limit === null ? "" : ` / ${key.limit}`}</td>
                <td class="main-cell"><Meter share={key.budget === null ? 0 : (key.spent + key.reserved) / key.budget} label={`Budget of ${shown(key.owner)}`} words={key.budget === null ? cost(key.spent) : `${cost(key.spent)} of ${cost(key.budget)}`} /></td>
                <td class="r">{cost(key.spent)}{key.budget === null ? "" : ` / ${cost(key.budget)}`}</td>
              </tr>
            ))}
          </tbody>
        </table>
    </Panel>
  );
}
