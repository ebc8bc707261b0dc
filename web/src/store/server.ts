// What the page knows of its server beside runs: what it has, which models, how its MCP servers fare. Asked for once.
import { computed, signal } from "@preact/signals";
import { type McpServer, type Me, type Model, Problem, type ServerFacts, type ServerTool, api, onRefused } from "../api";

export const facts = signal<ServerFacts | null>(null);
export const models = signal<Model[]>([]);
export const serverTools = signal<ServerTool[]>([]);
export const mcpServers = signal<McpServer[]>([]);
/** The server wants a key: the login lies over the page until it has one. */
export const needsKey = signal(false);
export const me = signal<Me | null>(null);
/** Whether the page is used with a key that was given here, so that there is something to log out of. */
export const isSignedIn = computed(() => me.value?.csrf != null);

const ROTATES_MS = 30 * 60_000; // the cookie lasts 12 hours, and GET /v1/me renews one that is older than an hour

export const modelName = computed(() => facts.value?.model ?? "");
export const isLocalModel = computed(() => modelName.value.startsWith("local:"));

export async function loadServer(): Promise<void> {
  try {
    // A server without a sign-in has no such address: the page works as far as the server lets it.
    me.value = await api.me().catch((error: unknown) => {
      if (error instanceof Problem && error.status === 404) return null;
      throw error;
    });
    const [found, listed] = await Promise.all([api.facts(), api.models()]);
    facts.value = found;
    models.value = listed;
    needsKey.value = false;
  } catch (error) {
    if (error instanceof Problem && error.status === 401) needsKey.value = true;
    return;
  }
  [mcpServers.value, serverTools.value] = await Promise.all([api.mcp().catch(() => []), api.tools().catch(() => [])]);
}

export function startServer(): void {
  onRefused(() => {
    needsKey.value = true;
  });
  void loadServer();
  setInterval(() => {
    if (isSignedIn.value && !needsKey.value) void api.me().then((found) => (me.value = found), () => undefined);
  }, ROTATES_MS);
}

/** The key of another owner opens another page: nothing of the one before stays. */
export async function logIn(key: string): Promise<void> {
  const before = me.value?.owner;
  const found = await api.login(key);
  if (before !== undefined && before !== found.owner) {
    forget();
    location.reload();
    return;
  }
  me.value = found;
  await loadServer();
}

export async function logOut(): Promise<void> {
  await api.logout().catch(() => undefined);
  forget();
  location.reload();
}

const OF_BROWSER = new Set(["ronda.theme", "ronda.letters"]);

/** What this browser keeps of an owner: drafts, titles, what was built. */
function forget(): void {
  try {
    for (const name of Object.keys(localStorage)) if (name.startsWith("ronda.") && !OF_BROWSER.has(name)) localStorage.removeItem(name);
  } catch {
    // a browser that keeps nothing has nothing to forget
  }
}
