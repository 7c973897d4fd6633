import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/server';
import { addressable, type ContentPart, isObject, type ToolSpec } from '@toolloop/protocol';
import type { MadeCall } from './waiting-calls.js';

/** Returns the result of a call in the model's projection, since the client stands for a model. */
export function toWireResult(
  { content = '', record }: MadeCall,
  outputSchema: ToolSpec['outputSchema'],
): CallToolResult {
  const parts = typeof content === 'string' ? [textBlock(content)] : content.map(toBlock);
  if (record.status !== 'succeeded') return { content: parts, isError: true };
  if (!outputSchema) return { content: parts };
  const told =
    typeof content === 'string' ? content : content.find((part) => part.type === 'text')?.text;
  const structuredContent = valueIn(told ?? '', outputSchema);
  if (structuredContent === undefined)
    return { content: [...parts, textBlock(CUT)], isError: true };
  return { content: parts, structuredContent };
}

/**
 * Clients refuse a result without the structure that the tool has declared; so it cannot be a
 * success.
 */
const CUT = 'The call was made, but its result is too long to be shown whole. Ask for less.';

/** A text is told as it is, anything else as JSON. */
function valueIn(told: string, { type }: NonNullable<ToolSpec['outputSchema']>): unknown {
  if (type === 'string') return told;
  try {
    return JSON.parse(told);
  } catch {
    return undefined;
  }
}

function textBlock(text: string): ContentBlock {
  return { type: 'text', text };
}

const DATA_URL = /^data:([^;,]+);base64,(.*)$/s;

/** Returns a part of a result as clients read it. */
export function toBlock(part: ContentPart): ContentBlock {
  if (part.type === 'text') return textBlock(part.text);
  const [, type, data] = DATA_URL.exec(part.url) ?? [];
  const mimeType = part.mediaType ?? type ?? 'application/octet-stream';
  const name = part.type === 'file' && part.name !== undefined ? part.name : mimeType;
  if (data === undefined) return { type: 'resource_link', uri: part.url, name, mimeType };
  if (mimeType.startsWith('image/')) return { type: 'image', data, mimeType };
  if (mimeType.startsWith('audio/')) return { type: 'audio', data, mimeType };
  return {
    type: 'resource',
    resource: { uri: `attachment:${encodeURIComponent(addressable(name))}`, mimeType, blob: data },
  };
}

/** The words in which a model reads of a failed call. */
export function failureIn({ content }: MadeCall): string | undefined {
  const told = typeof content === 'string' ? valueIn(content, {}) : undefined;
  const errors: readonly unknown[] =
    isObject(told) && Array.isArray(told['errors']) ? told['errors'] : [];
  const [first] = errors;
  const detail = isObject(first) ? first['detail'] : undefined;
  return typeof detail === 'string' ? detail : undefined;
}
