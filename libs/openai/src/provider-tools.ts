import type { WireObject } from '@toolloop/wire';

/** Calls that the provider of the responses API performs and answers itself, and what it calls the tool. */
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

/** The tool's name; undefined for what is no such call. A tool behind a connector is named with it: `deepwiki/ask_question`. */
export function providerToolOf({ type, execution, server_label: server, name }: WireObject): string | undefined {
  if (execution === 'client') return undefined;
  if (type === 'mcp_call' && typeof name === 'string') return typeof server === 'string' ? `${server}/${name}` : name;
  return PROVIDER_TOOLS.get(type);
}

/** Whether such a call came to nothing, as it says when it is done. */
export function hasFailed({ status, error }: WireObject): boolean {
  return status === 'failed' || status === 'incomplete' || (error !== undefined && error !== null);
}
