// What the page knows of its server beside runs: what it has, which models, how its MCP servers fare. Asked for once.
import { computed, signal } from "@preact/signals";
import { type McpServer, type Model, Problem, type ServerFacts, api } from "../api";

export const facts = signal<ServerFacts | null>(null);
export const models = signal<Model[]>([]);
export const mcpServers = signal<McpServer[]>([]);
/** The server wants a key: the page has no way to send one yet. */
export const needsKey = signal(false);

export const modelName = computed(() => facts.value?.model ?? "");
export const isLocalModel = computed(() => modelName.value.startsWith("local:"));

export async function loadServer(): Promise<void> {
  try {
    const [found, listed] = await Promise.all([api.facts(), api.models()]);
    facts.value = found;
    models.value = listed;
    needsKey.value = false;
  } catch (error) {
    if (error instanceof Problem && error.status === 401) needsKey.value = true;
  }
  mcpServers.value = await api.mcp().catch(() => []);
}
