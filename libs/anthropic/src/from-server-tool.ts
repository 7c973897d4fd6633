import { isWireObject, type WireObject } from '@toolloop/wire';

/** The name of a tool that the provider runs, of whose call this block is the beginning; a tool behind a connector is named with it. */
export function fromServerTool({ type, name, server_name: server }: WireObject): string | undefined {
  if (typeof name !== 'string' || (type !== 'server_tool_use' && type !== 'mcp_tool_use')) return undefined;
  return typeof server === 'string' ? `${server}/${name}` : name;
}

/** Whether the result of such a call says that it failed. */
export function isErrorResult({ is_error: isError, content }: WireObject): boolean {
  return isError === true || (isWireObject(content) && typeof content.type === 'string' && content.type.endsWith('_error'));
}
