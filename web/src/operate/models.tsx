// How models fare, and what the server keeps.
import type { VNode } from "preact";
import { bareModel, bytes, cost, plural, seconds, until } from "../format";
import { shown } from "../visible";
import { type OperateData, SPANS } from "./data";
import { Panel, Empty } from "./panel";

export function Models({ data }: { data: OperateData }): VNode {
  const figures = data.figures.value.value;
  return (
    <>
      <Panel title="Models" more={figures?.models === undefined ? "" : `last ${SPANS[data.span.value].words}`}>
        {figures?.models === undefined ? (
          <Empty words="This server does not count calls of models yet. Each run has its own figures." />
        ) : figures.models.length === 0 ? (
          <Empty words="No model was asked." />
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
                  <td class="main-cell" title={shown(one.name)}>
                    {shown(bareModel(one.name))} {one.cools_for != null && <span class="pill wait">cools down {until(one.cools_for)}</span>}
                  </td>
                  <td class="r">{one.calls}</td>
                  <td class={one.failed > 0 ? "r fail" : "r t3"}>{one.failed}</td>
                  <td class={one.first_token === null ? "r t3" : "r"}>{one.first_token === null ? "unknown" : seconds(one.first_token)}</td>
                  <td class={one.cost === null ? "r t3" : "r"}>{one.cost === null ? "unknown" : one.cost === 0 ? "free" : cost(one.cost)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Panel>
      {figures?.files !== undefined && (
        <Panel title="Kept">
          <dl class="op-kept small num">
            {figures.journal?.bytes != null && <div><dt class="t2">Runs</dt><dd>{bytes(figures.journal.bytes)}</dd></div>}
            <div><dt class="t2">Files</dt><dd>{figures.files.count === 0 ? "none" : `${plural(figures.files.count, "file")}, ${bytes(figures.files.bytes)}`}</dd></div>
          </dl>
        </Panel>
      )}
    </>
  );
}
