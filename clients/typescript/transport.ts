// Requests and answers of the client, over `fetch`: JSON both ways, and streams of server-sent events.

export class RondaHttpError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;

  constructor(status: number, message: string, code: string | null = null, param: string | null = null) {
    super(message);
    this.name = "RondaHttpError";
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

/** `position` is where to go on from, as `after`. */
export interface ServerEvent<T> {
  position: string;
  event: T;
}

export interface ClientOptions {
  /** Such as http://127.0.0.1:1234. */
  baseUrl: string;
  /** An API key of the server, where it has keys. */
  key?: string;
  fetch?: typeof fetch;
}

/** What stands in a place of an address. */
export function place(value: string | number): string {
  return encodeURIComponent(String(value));
}

export class Transport {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions) {
    this.#base = options.baseUrl.replace(/\/+$/, "").replace(/\/v1$/, "");
    this.#headers = options.key === undefined ? {} : { authorization: `Bearer ${options.key}` };
    this.#fetch = options.fetch ?? fetch;
  }

  /** `fields` whose names are in `query` go into the address, the others into the body. GET and DELETE have no body. */
  async ask<T>(method: string, path: string, fields: object, query: readonly string[] = [], body?: unknown): Promise<T> {
    const answer = await this.#send(method, path, fields, query, body);
    const text = await answer.text();
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** Until the stream ends; a caller that leaves the loop closes the connection. */
  async *follow<T>(path: string, fields: object): AsyncGenerator<ServerEvent<T>> {
    const stopping = new AbortController();
    const answer = await this.#send("GET", path, fields, [], undefined, stopping.signal);
    let position = "";
    let data: string[] = [];
    let rest = "";
    try {
      if (answer.body === null) return;
      const decoder = new TextDecoder();
      for await (const piece of answer.body as unknown as AsyncIterable<Uint8Array>) {
        const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
        rest = lines.pop() ?? "";
        for (const raw of lines) {
          const line = raw.replace(/\r$/, "");
          if (line.startsWith("id: ")) position = line.slice(4);
          else if (line.startsWith("data: ")) data.push(line.slice(6));
          else if (line === "" && data.length > 0) {
            yield { position, event: JSON.parse(data.join("\n")) as T };
            data = [];
          }
        }
      }
    } finally {
      stopping.abort();
    }
  }

  async #send(
    method: string,
    path: string,
    fields: object,
    query: readonly string[],
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<Response> {
    const isAsked = method === "GET" || method === "DELETE";
    const asked = new URLSearchParams();
    const rest: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(fields)) {
      if (!isAsked && !query.includes(name)) rest[name] = value;
      else if (value !== undefined && value !== null) asked.append(name, String(value));
    }
    const payload = body ?? (Object.keys(rest).length > 0 ? rest : undefined);
    const address = this.#base + path + (asked.size > 0 ? `?${asked}` : "");
    const answer = await this.#fetch(address, {
      method,
      headers: payload === undefined ? this.#headers : { ...this.#headers, "content-type": "application/json" },
      ...(payload === undefined ? {} : { body: JSON.stringify(payload) }),
      ...(signal === undefined ? {} : { signal }),
    });
    if (answer.status >= 400) throw await readError(answer);
    return answer;
  }
}

async function readError(answer: Response): Promise<RondaHttpError> {
  const text = await answer.text();
  try {
    const found = JSON.parse(text) as { error?: Record<string, string | null>; message?: string };
    const error = found.error ?? (found as Record<string, string | null>);
    if (typeof error["message"] === "string") {
      return new RondaHttpError(answer.status, error["message"], error["code"] ?? null, error["param"] ?? null);
    }
  } catch {
    // said below
  }
  return new RondaHttpError(answer.status, `the server answered ${answer.status}: ${text.slice(0, 200)}`);
}
