import type { ModelOptions, ModelRequest } from '@toolloop/core';
import { isWireObject, RequestBody } from '@toolloop/wire';
import type { AnthropicTarget } from './anthropic-target.js';
import { marked, type PromptCache } from './prompt-cache.js';
import { toConversation, type Conversation } from './to-conversation.js';
import { toOutputFormat, type OutputFormat } from './to-output-format.js';
import { toToolChoice, toTools } from './to-tools.js';

/**
 * The body of `POST /v1/messages`, as JSON text, for whoever sends the request himself. It is put together from parts that are encoded once and known by
 * identity: an unchanged tool or message costs no work in the next step and gives the same bytes, which the provider's prompt cache needs. Four places
 * are marked for that cache, as many as the API takes: the last tool, the end of the instructions, and the last two turns of the user, of which one was
 * the last in the step before.
 */
export function toMessagesRequest(request: ModelRequest, target: AnthropicTarget): string {
  const { instructions, messages, answerFormat, options = {} } = request;
  const { promptCache = '5m', maxTokens = 16_000, parallelToolCalls = true } = target;
  const conversation = toConversation(messages, target.model);
  const output = answerFormat === undefined ? {} : toOutputFormat(answerFormat);
  const system = [...toText(instructions), ...conversation.system, ...toText(output.instruction)];
  const tools = toTools(request.tools, target.serverTools ?? [], target.strictTools);
  const body = new RequestBody();
  body.setAll({ model: target.model, max_tokens: options.maxOutputTokens ?? maxTokens });
  body.setJson('stream', 'true');
  body.setJson('messages', toMessages(conversation, promptCache));
  if (tools !== '') {
    body.setJson('tools', `[${marked(tools, promptCache)}]`);
    body.setAll({ tool_choice: toToolChoice(request.toolChoice, parallelToolCalls) });
  }
  if (system.length > 0) body.setJson('system', `[${marked(system.join(','), promptCache)}]`);
  body.setAll({ container: conversation.container });
  setOptions(body, options, target, output);
  return body.toJson();
}

function toText(text: string | undefined): readonly string[] {
  return text === undefined || text.trim() === '' ? [] : [JSON.stringify({ type: 'text', text })];
}

function toMessages({ turns }: Conversation, promptCache: PromptCache): string {
  const places = new Set(turns.filter(({ role }) => role === 'user').slice(-2));
  const texts = turns.map((turn) => {
    const blocks = turn.blocks.join(',');
    return `{"role":"${turn.role}","content":[${places.has(turn) ? marked(blocks, promptCache) : blocks}]}`;
  });
  return `[${texts.join(',')}]`;
}

function setOptions(body: RequestBody, options: ModelOptions, target: AnthropicTarget, { format }: OutputFormat): void {
  const { output_config: theirs, ...provider } = options.provider ?? {};
  const config = { effort: target.effort, format, ...(isWireObject(theirs) && theirs) };
  body.setAll({
    stop_sequences: options.stopSequences,
    thinking: target.thinking,
    ...(Object.values(config).some((value) => value !== undefined) && { output_config: config }),
    // Later versions refuse them.
    ...(target.apiVersion === '2023-06-01' && { temperature: options.temperature, top_p: options.topP }),
  });
  body.merge(provider);
}
