import type { ModelRequest, ToolChoice, ToolSpec } from '@toolloop/core';
import { RequestBody } from '@toolloop/wire';
import { isStrictSchema, toJsonSchemaFormat } from './json-schema-format.js';
import type { OpenAiTarget } from './openai-target.js';
import type { ResponsesTool } from './responses-wire.js';
import { toResponsesInput } from './to-responses-input.js';
import { ToolEncoder } from './tool.encoder.js';

const strictTools = new ToolEncoder((spec) => toTool(spec, isStrictSchema(spec.inputSchema)));
const looseTools = new ToolEncoder((spec) => toTool(spec, false));

/** Models that do not reason, and refuse to be asked for their encrypted reasoning. */
const NOT_REASONING = /^(?:ft:)?(?:gpt-3|gpt-4|chatgpt-|gpt-5.*-chat)/;

/**
 * The body of `POST /responses`, put together from parts that are encoded once and known by identity. Nothing is stored at the provider: what a model
 * wants to see again, its encrypted reasoning above all, travels in the transcript. The API knows neither a seed nor stop sequences.
 */
export function toResponsesRequest(request: ModelRequest, target: OpenAiTarget): string {
  const { instructions, messages, tools, toolChoice, answerFormat, options = {} } = request;
  const { model, builtInTools = [] } = target;
  const body = new RequestBody();
  body.setAll({ model, instructions });
  body.setJson('input', toResponsesInput(messages, model));
  body.setJson('stream', 'true');
  body.setJson('store', 'false');
  if (!NOT_REASONING.test(model)) body.setJson('include', '["reasoning.encrypted_content"]');
  if (tools.length + builtInTools.length > 0) {
    // The provider's own come first, for they are the same in every request.
    const own = builtInTools.map((tool) => JSON.stringify(tool));
    const ours = tools.length > 0 ? [(target.strictTools !== false ? strictTools : looseTools).toJson(tools)] : [];
    body.setJson('tools', `[${[...own, ...ours].join(',')}]`);
    body.setAll({ tool_choice: toolChoice && toToolChoice(toolChoice), parallel_tool_calls: target.parallelToolCalls });
  }
  if (answerFormat !== undefined) body.setJson('text', `{"format":{"type":"json_schema",${toJsonSchemaFormat(answerFormat).slice(1)}}`);
  body.setAll({
    reasoning: toReasoning(target),
    temperature: options.temperature,
    top_p: options.topP,
    max_output_tokens: options.maxOutputTokens,
  });
  body.merge(options.provider);
  return body.toJson();
}

/** Strictness is said in any case: this API would take a tool that says nothing for strict, and refuse it. */
function toTool({ id: name, description, inputSchema: parameters }: ToolSpec, strict: boolean): ResponsesTool {
  return { type: 'function', name, description, parameters, strict };
}

function toReasoning({ reasoningEffort: effort, reasoningSummary: summary }: OpenAiTarget): object | undefined {
  return effort === undefined && summary === undefined ? undefined : { effort, summary };
}

function toToolChoice(choice: ToolChoice): unknown {
  return typeof choice === 'string' ? choice : { type: 'function', name: choice.tool };
}
