// The Responses API through the official client: a stream, a chain with a tool, what is stored, what goes wrong.
import OpenAI from "openai";

const client = new OpenAI({ apiKey: "foobar", baseURL: process.env.RONDA_URL + "/v1/", maxRetries: 0 });
const tools = [
  {
    type: "function",
    name: "pick",
    parameters: { type: "object", properties: { color: { type: "string" } }, required: ["color"] },
    strict: false,
  },
];

const said = [];
const stream = client.responses.stream({ model: "default", input: "go", tools });
stream.on("response.function_call_arguments.delta", (event) => said.push(event.delta));
const first = await stream.finalResponse();
const call = first.output.find((item) => item.type === "function_call");
const second = await client.responses.create({
  model: "default",
  previous_response_id: first.id,
  input: [{ type: "function_call_output", call_id: call.call_id, output: "red it is" }],
  tools,
});
const kept = await client.responses.retrieve(second.id);
const items = [];
for await (const item of client.responses.inputItems.list(second.id, { order: "asc", limit: 1 })) items.push(item.type);
await client.responses.delete(second.id);
const gone = await client.responses.retrieve(second.id).catch((error) => error.status);

console.log(JSON.stringify({ arguments: said.join(""), text: second.output_text, kept: kept.output_text, items, gone }));
