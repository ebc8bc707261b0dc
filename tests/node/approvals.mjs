// A call that waits for a person, seen through the accumulator of the official client, and decided with the next response.
import OpenAI from "openai";

const client = new OpenAI({ apiKey: "foobar", baseURL: process.env.RONDA_URL + "/v1/", maxRetries: 0 });

const asked = [];
const stream = client.responses.stream({ model: "default", input: "go" });
for await (const event of stream) if (event.approval_id) asked.push(event.tool.label);
const first = await stream.finalResponse();

const request = first.output.find((item) => item.type === "mcp_approval_request");
const input = [{ type: "mcp_approval_response", approval_request_id: request.id, approve: true }];
const rest = client.responses.stream({ model: "default", previous_response_id: first.id, input });
for await (const event of rest) void event;
const second = await rest.finalResponse();

const types = (response) => response.output.map((item) => item.type);
console.log(JSON.stringify({ asked, first: types(first), second: types(second), text: second.output_text }));
