// How models fare, and how much room is left.
import type { VNode } from "preact";
import { cost, seconds, until } from "../format";
import { shown } from "../visible";
import { Meter } from "../views/details";
import type { OperateFigures } from "./data";
import { Panel, Empty } from "./panel";

export function Models({ figures }: { figures: OperateFigures | null }): VNode {
  return (
    <>
      <Panel title="Models" more={figures?.models === undefined ? "" : "last hour"}>
        {figures?.models === undefined ? (
          <Empty words="This server does not count calls of models yet. Each run has its own figures." />
        ) : (
          <table>
            <thead>
              <tr>
                <th scope="col">Model</th>
                <th scope="col" class="r">Calls</th>
                <th scope="col" class="r">Failed</th>
                <th scope="col" class="r">First token</th>
                <th scope="col" class="r">Cost</th>
              </tr>
            </thead>
            <tbody>
              {figures.models.map((one) => (
                <tr key={one.name}>
                  <td class="main-cell">{shown(one.name)} {one.cools_down ? <span class="pill wait tiny">cools down {until(one.cools_down)}</span> : null}</td>
                  <td class="r">{one.calls}</td>
                  <td class={one.failed > 0 ? "r fail" : "r t3"}>{one.failed}</td>
                  <td class="r">{one.first_token === null ? "unknown" : seconds(one.first_token)}</td>
                  <td class="r">{one.cost === null ? "unknown" : one.cost === 0 ? "free" : cost(one.cost)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Panel>
      {figures?.meters !== undefined && (
        <Panel title="Room">
          <ul class="op-list">
            {figures.meters.map((one) => (
              <li key={one.name}>
                <span class="small t2 meter-name">{shown(one.name)}</span>
                <span class="grow"><Meter share={one.used / one.of} label={one.name} words={`${one.used} of ${one.of} ${one.unit}`} /></span>
                <span class="small num">{one.used} / {one.of} {one.unit}</span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
    </>
  );
}
