import type { ModelOptions, ModelRequest, ToolChoice, ToolSpec } from '@toolloop/core';
import type { ChatTool } from './chat-wire.js';
import { toChatMessages } from './to-chat-messages.js';
import { toResponseFormat } from './to-response-format.js';

/** What a request is written for. */
export interface ChatTarget {
  readonly model: string;
  readonly maxTokensField: 'max_completion_tokens' | 'max_tokens';
}

const encodedTools = new WeakMap<ToolSpec, string>();
const encodedToolsets = new WeakMap<readonly ToolSpec[], string>();

/**
 * The body of `POST /chat/completions`, put together from parts that are encoded once and known by identity: an unchanged tool or message costs
 * no work in the next step and gives the same bytes, which the provider's prompt cache needs.
 */
export function toChatRequest(request: ModelRequest, target: ChatTarget): string {
  const { instructions, messages, tools, toolChoice, answerFormat, options = {} } = request;
  const fields = new Map([
    ['model', JSON.stringify(target.model)],
    ['messages', toChatMessages(instructions, messages, target.model)],
    ['stream', 'true'],
    ['stream_options', '{"include_usage":true}'],
  ]);
  // Providers refuse an empty list, and a choice without one.
  if (tools.length > 0) {
    fields.set('tools', toTools(tools));
    if (toolChoice !== undefined) fields.set('tool_choice', toToolChoice(toolChoice));
  }
  if (answerFormat !== undefined) fields.set('response_format', toResponseFormat(answerFormat));
  setOptions(fields, options, target);
  return `{${Array.from(fields, ([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

function toTools(tools: readonly ToolSpec[]): string {
  const known = encodedToolsets.get(tools);
  if (known !== undefined) return known;
  const text = `[${tools.map(toTool).join(',')}]`;
  encodedToolsets.set(tools, text);
  return text;
}

/** Labels, effect and the like are ours: the model is told what the tool does and what it takes. */
function toTool(spec: ToolSpec): string {
  const known = encodedTools.get(spec);
  if (known !== undefined) return known;
  const tool: ChatTool = { type: 'function', function: { name: spec.id, description: spec.description, parameters: spec.inputSchema } };
  const text = JSON.stringify(tool);
  encodedTools.set(spec, text);
  return text;
}

function toToolChoice(choice: ToolChoice): string {
  return JSON.stringify(typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.tool } });
}

function setOptions(fields: Map<string, string>, options: ModelOptions, target: ChatTarget): void {
  const known = {
    temperature: options.temperature,
    top_p: options.topP,
    [target.maxTokensField]: options.maxOutputTokens,
    seed: options.seed,
    stop: options.stopSequences,
  };
  for (const [name, value] of Object.entries(known)) if (value !== undefined) fields.set(name, JSON.stringify(value));
  // `undefined` takes a field away, for servers that refuse one of ours.
  for (const [name, value] of Object.entries(options.provider ?? {})) {
    if (value === undefined) fields.delete(name);
    else fields.set(name, JSON.stringify(value));
  }
}
