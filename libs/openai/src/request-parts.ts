import { createHash } from 'node:crypto';
import type { AnswerFormat, ContentPart, ToolCall, ToolSpec } from '@toolloop/protocol';
import { EncodedOnce } from '@toolloop/wire';
import { toStrictSchema } from './strict-schema.js';

const encoded = new EncodedOnce<AnswerFormat>();

/** Writes the format of an answer as the JSON text that both APIs have in common. */
export function toJsonSchemaFormat(format: AnswerFormat): string {
  const { name, schema } = format;
  return encoded.text(format, '', () => {
    const strict = toStrictSchema(schema);
    return JSON.stringify({ name, schema: strict ?? schema, strict: strict !== undefined });
  });
}

/**
 * Writes tools in the format of one API. Labels, effect and the like stay here: the model sees description and input schema. An unchanged
 * toolset costs nothing, and one that grew keeps the bytes of its earlier tools.
 */
export class ToolEncoder {
  private readonly tools = new EncodedOnce<ToolSpec>();
  private readonly toolsets = new EncodedOnce<readonly ToolSpec[]>();

  constructor(private readonly toTool: (spec: ToolSpec) => object) {}

  /** Writes the tools as JSON texts, with commas between them. */
  toJson(specs: readonly ToolSpec[]): string {
    return this.toolsets.text(specs, '', () => specs.map((spec) => this.toolJson(spec)).join(','));
  }

  private toolJson(spec: ToolSpec): string {
    return this.tools.text(spec, '', () => JSON.stringify(this.toTool(spec)));
  }
}

const NONE: ReadonlyMap<string, string> = new Map();

/**
 * Maps the call ids of one message to the provider's, where these differ. Where the provider gave two calls the same id, the second keeps its own:
 * a result has to find its call. Ids longer than `most` characters are shortened: OpenAI refuses them, and vLLM, for example, makes longer ones.
 */
export function wireIdsOf(calls: readonly ToolCall[] | undefined, most: number): ReadonlyMap<string, string> {
  if (calls === undefined || calls.every((call) => call.providerCallId === undefined && call.toolCallId.length <= most)) return NONE;
  const ids = new Map<string, string>();
  const taken = new Set<string>();
  for (const { toolCallId, providerCallId } of calls) {
    const id = shortened(providerCallId === undefined || taken.has(providerCallId) ? toolCallId : providerCallId, most);
    taken.add(id);
    ids.set(toolCallId, id);
  }
  return ids;
}

function shortened(id: string, most: number): string {
  return id.length <= most ? id : `call_${createHash('sha256').update(id).digest('hex').slice(0, 32)}`;
}

/** Returns the name of a file, which providers require; made from its media type where it has none. */
export function fileName({ name, mediaType }: Extract<ContentPart, { readonly type: 'file' }>): string {
  return name ?? `file.${/^[^/]+\/([a-z0-9]+)/.exec(mediaType)?.[1] ?? 'bin'}`;
}
