import type { JsonObject, JsonValue, LanguageModel, Message, ToolSpec } from '@toolloop/core';
import {
  isJsonObject,
  type AssistantMessage,
  type ModelEvent,
  type ModelRequest,
  type ToolMessage,
} from '@toolloop/protocol';
import { parseJson } from '../src/values.js';
import { offline, type OfflineModelOptions } from '../src/index.js';

type Schema = ToolSpec['inputSchema'];

/** A tool of a test: its spec, what it returns, and the tools its result brings along. */
export interface TestTool {
  readonly spec: ToolSpec;
  readonly run: (args: JsonObject) => Outcome;
}

export interface Outcome {
  readonly value: JsonValue;
  readonly error?: string;
  /** @default 'execution_failed' */
  readonly code?: string;
  readonly tools?: readonly TestTool[];
}

type Properties = NonNullable<Schema['properties']>;

interface Shape {
  readonly description: string;
  readonly properties?: Properties;
  readonly required?: readonly string[];
  readonly effect?: ToolSpec['effect'];
  readonly declaredId?: string;
  readonly schema?: Schema;
}

export function spec(
  id: string,
  { description, properties = {}, required, effect = 'read_only', declaredId = id, schema }: Shape,
): ToolSpec {
  const inputSchema: Schema = schema ?? {
    type: 'object',
    properties,
    required: [...(required ?? Object.keys(properties))],
    additionalProperties: false,
  };
  return Object.freeze<ToolSpec>({
    id,
    declaredId,
    description,
    inputSchema,
    effect,
    labels: { returns: 'untrusted', reads: 'private', egress: effect === 'external_side_effect' },
    redaction: { kind: 'reveal', fields: 'all' },
    schemaHash: id,
  });
}

export function tool(
  id: string,
  shape: Shape,
  run: (args: JsonObject) => JsonValue | Outcome,
): TestTool {
  return { spec: spec(id, shape), run: (args) => outcomeOf(run(args)) };
}

/** An entity tool `{prefix}_{instanceId}_{method}`. */
export function entityTool(
  [prefix, instanceId, method]: [string, string, string],
  shape: Shape,
  run: (args: JsonObject) => JsonValue | Outcome,
): TestTool {
  return tool(
    `${prefix}_${instanceId}_${method}`,
    { ...shape, declaredId: `${prefix}_*_${method}` },
    run,
  );
}

function outcomeOf(result: JsonValue | Outcome): Outcome {
  return isOutcome(result) ? result : { value: result };
}

function isOutcome(result: JsonValue | Outcome): result is Outcome {
  return (
    typeof result === 'object' &&
    result !== null &&
    'value' in result &&
    ('tools' in result || 'error' in result)
  );
}

export interface Run {
  readonly text: string;
  /** `tool {"argument":"value"}` of each call, in order. */
  readonly calls: readonly string[];
  readonly messages: readonly Message[];
  /** All tools there were at the end. */
  readonly tools: readonly TestTool[];
  readonly steps: number;
}

interface RunOptions extends Partial<Omit<ModelRequest, 'tools'>> {
  readonly model?: OfflineModelOptions;
}

const MOST_STEPS = 20;

/**
 * The smallest loop that can drive a model: ask, run the calls, add the tools they bring, ask
 * again.
 */
export async function runLoop(
  prompt: string,
  tools: readonly TestTool[],
  options: RunOptions = {},
): Promise<Run> {
  const { model: modelOptions, messages: before = [], ...rest } = options;
  const model = offline(modelOptions);
  const messages: Message[] = [...before, { role: 'user', content: prompt }];
  const known = new Map(tools.map((one) => [one.spec.id, one]));
  const calls: string[] = [];
  for (let steps = 1; steps <= MOST_STEPS; steps += 1) {
    const events = await eventsOf(model, {
      ...rest,
      messages: [...messages],
      tools: [...known.values()].map((one) => one.spec),
    });
    const answer = assistantMessage(events);
    messages.push(answer);
    if (!answer.toolCalls?.length)
      return { text: answer.content, calls, messages, tools: [...known.values()], steps };
    for (const call of answer.toolCalls) {
      calls.push(`${call.name} ${call.arguments}`);
      messages.push(execute(call, known));
    }
  }
  throw new Error(`The model did not end within ${MOST_STEPS} steps: ${calls.join('; ')}`);
}

function execute(
  call: { readonly toolCallId: string; readonly name: string; readonly arguments: string },
  known: Map<string, TestTool>,
): ToolMessage {
  const args = parseJson(call.arguments);
  const found = known.get(call.name);
  if (!found || !isJsonObject(args))
    throw new Error(`No such call: ${call.name} ${call.arguments}`);
  const { value, error, code = 'execution_failed', tools = [] } = found.run(args);
  for (const one of tools) known.set(one.spec.id, one);
  const content =
    error === undefined
      ? value
      : { errors: [{ status: '500', code, title: 'Failed', detail: error }] };
  return {
    role: 'tool',
    toolCallId: call.toolCallId,
    toolName: call.name,
    content: JSON.stringify(content),
    ...(error === undefined ? {} : { isError: true }),
  };
}

export async function eventsOf(
  model: LanguageModel,
  request: ModelRequest,
  signal = new AbortController().signal,
): Promise<ModelEvent[]> {
  const events: ModelEvent[] = [];
  for await (const event of model.stream(request, signal)) events.push(event);
  return events;
}

export function assistantMessage(events: readonly ModelEvent[]): AssistantMessage {
  const content = events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');
  const toolCalls = events.flatMap((event) =>
    event.type === 'tool-call'
      ? [{ toolCallId: event.toolCallId, name: event.name, arguments: event.arguments }]
      : [],
  );
  return { role: 'assistant', content, ...(toolCalls.length > 0 ? { toolCalls } : {}) };
}
