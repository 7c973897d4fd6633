import type { WireObject } from '@toolloop/wire';

/**
 * The calls that the provider of the responses API performs and answers itself, with the name of
 * the tool.
 */
const PROVIDER_TOOLS: ReadonlyMap<unknown, string> = new Map([
  ['web_search_call', 'web_search'],
  ['file_search_call', 'file_search'],
  ['code_interpreter_call', 'code_interpreter'],
  ['image_generation_call', 'image_generation'],
  ['mcp_list_tools', 'mcp_list_tools'],
  ['mcp_call', 'mcp'],
  ['tool_search_call', 'tool_search'],
]);

/** The types of item that are such calls. */
export const PROVIDER_CALLS: readonly unknown[] = [...PROVIDER_TOOLS.keys()];

/**
 * Names the provider's tool that an item calls; undefined for any other item. A tool behind a
 * connector is named with it: `deepwiki/ask_question`.
 */
export function providerToolOf({
  type,
  execution,
  server_label: server,
  name,
}: WireObject): string | undefined {
  if (execution === 'client') return undefined;
  if (type === 'mcp_call' && typeof name === 'string')
    return typeof server === 'string' ? `${server}/${name}` : name;
  return PROVIDER_TOOLS.get(type);
}

/** Tells whether a finished call of a provider's tool failed. */
export function hasFailed({ status, error }: WireObject): boolean {
  return status === 'failed' || status === 'incomplete' || (error !== undefined && error !== null);
}
