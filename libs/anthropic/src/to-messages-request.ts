import type { ModelOptions, ModelRequest } from '@toolloop/core';
import type { MessagesTarget } from './messages-target.js';
import { marked } from './prompt-cache.js';
import { toConversation, type Conversation } from './to-conversation.js';
import { toInstruction, toOutputFormat, type OutputFormat } from './to-output-format.js';
import { toToolChoice, toTools } from './to-tools.js';
import { isWireObject, type WireObject } from './wire-object.js';

/**
 * The body of `POST /v1/messages`, put together from parts that are encoded once and known by identity: an unchanged tool or message costs no work
 * in the next step and gives the same bytes, which the provider's prompt cache needs. Four places are marked for that cache, as many as the API
 * takes: the last tool, the end of the instructions, and the last two turns of the user, of which one was the last in the step before.
 */
export function toMessagesRequest(request: ModelRequest, target: MessagesTarget): string {
  const { instructions, messages, options = {} } = request;
  const conversation = toConversation(messages, target.model);
  const output = outputOf(request, target);
  const system = [...toText(instructions), ...conversation.system, ...toText(output.instruction)];
  const tools = toTools(request.tools, target.serverTools);
  const fields = new Map([
    ['model', JSON.stringify(target.model)],
    ['max_tokens', JSON.stringify(options.maxOutputTokens ?? target.maxTokens)],
    ['stream', 'true'],
    ['messages', toMessages(conversation, target)],
  ]);
  if (tools !== '') {
    fields.set('tools', `[${marked(tools, target.promptCache)}]`);
    const choice = toToolChoice(request.toolChoice, target.parallelToolCalls);
    if (choice !== undefined) fields.set('tool_choice', choice);
  }
  if (system.length > 0) fields.set('system', `[${marked(system.join(','), target.promptCache)}]`);
  if (conversation.container !== undefined) fields.set('container', JSON.stringify(conversation.container));
  setOptions(fields, options, target, output.format);
  return `{${Array.from(fields, ([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
}

function outputOf({ answerFormat }: ModelRequest, { structuredOutputs }: MessagesTarget): OutputFormat {
  if (answerFormat === undefined) return {};
  return structuredOutputs ? toOutputFormat(answerFormat) : toInstruction(answerFormat);
}

function toText(text: string | undefined): readonly string[] {
  return text === undefined || text.trim() === '' ? [] : [JSON.stringify({ type: 'text', text })];
}

function toMessages({ turns }: Conversation, { promptCache }: MessagesTarget): string {
  const places = new Set(turns.filter(({ role }) => role === 'user').slice(-2));
  const texts = turns.map((turn) => {
    const blocks = turn.blocks.join(',');
    return `{"role":"${turn.role}","content":[${places.has(turn) ? marked(blocks, promptCache) : blocks}]}`;
  });
  return `[${texts.join(',')}]`;
}

function setOptions(fields: Map<string, string>, options: ModelOptions, target: MessagesTarget, format: WireObject | undefined): void {
  const { output_config: theirs, ...provider } = options.provider ?? {};
  const config = { effort: target.effort, format, ...(isWireObject(theirs) && theirs) };
  const known = {
    stop_sequences: options.stopSequences,
    thinking: target.thinking,
    ...(Object.values(config).some((value) => value !== undefined) && { output_config: config }),
    ...(target.takesSampling && { temperature: options.temperature, top_p: options.topP }),
  };
  for (const [name, value] of Object.entries(known)) if (value !== undefined) fields.set(name, JSON.stringify(value));
  // `undefined` takes a field away, for servers that refuse one of ours.
  for (const [name, value] of Object.entries(provider)) {
    if (value === undefined) fields.delete(name);
    else fields.set(name, JSON.stringify(value));
  }
}
