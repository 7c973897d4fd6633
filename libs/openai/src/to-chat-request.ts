import type { ModelRequest, ToolChoice, ToolSpec } from '@toolloop/core';
import { RequestBody } from '@toolloop/wire';
import type { ChatTool } from './chat-wire.js';
import { isStrictSchema, toJsonSchemaFormat } from './json-schema-format.js';
import type { OpenAiTarget } from './openai-target.js';
import { toChatMessages } from './to-chat-messages.js';
import { ToolEncoder } from './tool.encoder.js';

const strictTools = new ToolEncoder((spec) => toTool(spec, isStrictSchema(spec.inputSchema)));
const looseTools = new ToolEncoder((spec) => toTool(spec, false));

/** The body of `POST /chat/completions`, put together from parts that are encoded once and known by identity. */
export function toChatRequest(request: ModelRequest, target: OpenAiTarget): string {
  const { instructions, messages, tools, toolChoice, answerFormat, options = {} } = request;
  const body = new RequestBody();
  body.setAll({ model: target.model });
  body.setJson('messages', toChatMessages(instructions, messages, target.model));
  body.setJson('stream', 'true');
  body.setJson('stream_options', '{"include_usage":true}');
  // Providers refuse an empty list, and what is said of one.
  if (tools.length > 0) {
    body.setJson('tools', `[${(target.strictTools !== false ? strictTools : looseTools).toJson(tools)}]`);
    body.setAll({ tool_choice: toolChoice && toToolChoice(toolChoice), parallel_tool_calls: target.parallelToolCalls });
  }
  if (answerFormat !== undefined) {
    body.setJson('response_format', `{"type":"json_schema","json_schema":${toJsonSchemaFormat(answerFormat)}}`);
  }
  const { maxTokensField = 'max_completion_tokens' } = target;
  body.setAll({
    reasoning_effort: target.reasoningEffort,
    temperature: options.temperature,
    top_p: options.topP,
    [maxTokensField]: options.maxOutputTokens,
    seed: options.seed,
    stop: options.stopSequences,
  });
  body.merge(options.provider);
  return body.toJson();
}

function toTool(spec: ToolSpec, isStrict: boolean): ChatTool {
  const { id: name, description, inputSchema: parameters } = spec;
  return { type: 'function', function: { name, description, parameters, ...(isStrict && { strict: true }) } };
}

function toToolChoice(choice: ToolChoice): unknown {
  return typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.tool } };
}
