import type {
  AssistantMessage,
  ContentPart,
  Message,
  ModelRequest,
  ToolCall,
  ToolChoice,
  ToolSpec,
  UserMessage,
} from '@toolloop/protocol';
import {
  CallNaming,
  EncodedOnce,
  GrowingBytes,
  type JsonPart,
  listOf,
  RequestBody,
  ToolEncoder,
  Transcripts,
  type TranscriptWriter,
  toWireArguments,
  toWireName,
  type WireIds,
  type WireObject,
  wireObjectsIn,
} from '@toolloop/wire';
import { type OpenAiTarget, serverAt } from './openai-options.js';
import { type AnswerOrigin, providerDataOf } from './provider-data.js';
import { PROVIDER_CALLS } from './provider-tools.js';
import { type AudioPart, audioPart, fileName, fitTo, toJsonSchemaFormat } from './request-parts.js';
import { toStrictSchema } from './strict-schema.js';

/**
 * Writes the body of `POST /responses` as JSON text, also for an application that sends the request
 * itself.
 */
export function toResponsesRequest(request: ModelRequest, target: OpenAiTarget): string {
  return responsesBody(request, target, serverAt(target.baseURL)).toJson();
}

/**
 * Writes a tool, always with `strict`: this API takes a tool without it for strict, and would
 * refuse its schema.
 */
function toTool({ id: name, description, inputSchema }: ToolSpec, strict?: object): ResponsesTool {
  return {
    type: 'function',
    name,
    description,
    parameters: strict ?? inputSchema,
    strict: strict !== undefined,
  };
}

const strictTools = new ToolEncoder((spec) => toTool(spec, toStrictSchema(spec.inputSchema)));
const looseTools = new ToolEncoder((spec) => toTool(spec));

/** The models that do not reason, and refuse a request for their encrypted reasoning. */
const NOT_REASONING = /^(?:ft:)?(?:gpt-3|gpt-4|chatgpt-|gpt-5.*-chat)/;

/**
 * Writes the body of `POST /responses` from parts that are encoded once and known by identity.
 * Nothing is stored at the provider: the parts that a model requires again, its encrypted reasoning
 * above all, are in the transcript. The API knows neither a seed nor stop sequences.
 */
export function responsesBody(
  request: ModelRequest,
  target: OpenAiTarget,
  server: string | undefined,
): RequestBody {
  const { instructions, messages, tools, toolChoice, answerFormat, options = {} } = request;
  const { model, builtInTools = [] } = target;
  const body = new RequestBody();
  body.setAll({ model, instructions });
  body.setJson('input', ...written(messages, { model, server }).items);
  body.setJson('stream', 'true');
  body.setJson('store', 'false');
  if (!NOT_REASONING.test(model)) body.setJson('include', '["reasoning.encrypted_content"]');
  if (tools.length + builtInTools.length > 0) {
    // The provider's own come first, for they are the same in every request.
    const own = builtInTools.map((tool) => `,${JSON.stringify(tool)}`);
    body.setJson(
      'tools',
      ...listOf([
        ...own,
        ...(target.strictTools !== false ? strictTools : looseTools).toItems(tools),
      ]),
    );
    body.setAll({
      tool_choice: toolChoice && toToolChoice(toolChoice),
      parallel_tool_calls: target.parallelToolCalls,
    });
  }
  if (answerFormat !== undefined) {
    body.setJson(
      'text',
      '{"format":{"type":"json_schema",',
      toJsonSchemaFormat(answerFormat).subarray(1),
      '}',
    );
  }
  body.setAll({
    reasoning: toReasoning(target),
    temperature: options.temperature,
    top_p: options.topP,
    max_output_tokens: options.maxOutputTokens,
  });
  body.merge(options.provider);
  return body;
}

function toReasoning({
  reasoningEffort: effort,
  reasoningSummary: summary,
}: OpenAiTarget): object | undefined {
  return effort === undefined && summary === undefined ? undefined : { effort, summary };
}

function toToolChoice(choice: ToolChoice): unknown {
  return typeof choice === 'string' ? choice : { type: 'function', name: choice.tool };
}

/** The longest id of a call that the API accepts. */
const MOST_ID_CHARACTERS = 64;

const encoded = new EncodedOnce<Message>();

/** The `input` of a request, each item with a comma before it. */
class ResponsesTranscript implements TranscriptWriter {
  private readonly bytes = new GrowingBytes();
  private readonly naming = new CallNaming(fitTo(MOST_ID_CHARACTERS));
  private wireIds: WireIds = new Map();

  constructor(private readonly reader: AnswerOrigin) {}

  take(message: Message): void {
    if (message.role === 'assistant') this.wireIds = this.naming.name(message.toolCalls ?? []);
    this.bytes.add([toItems(message, this.wireIds, this.reader)]);
  }

  get items(): readonly JsonPart[] {
    return listOf(this.bytes.pieces);
  }
}

const transcripts = new Transcripts<ResponsesTranscript>();

function written(messages: readonly Message[], reader: AnswerOrigin): ResponsesTranscript {
  return transcripts.written(
    messages,
    JSON.stringify([reader.model, reader.server]),
    () => new ResponsesTranscript(reader),
  );
}

/** Writes a message: one item, or several for an assistant message. */
function toItems(message: Message, wireIds: WireIds, reader: AnswerOrigin): Uint8Array {
  if (message.role === 'assistant') {
    const output = providerDataOf(message, reader)?.output ?? [];
    const key = [output.length > 0 && [reader.model, reader.server], ...wireIds.values()].join();
    return encoded.bytes(message, key, () =>
      toAssistantItems(message, wireIds, output).map(toJson).join(''),
    );
  }
  if (message.role === 'tool') {
    const id = wireIds.get(message.toolCallId) ?? message.toolCallId;
    return encoded.bytes(message, id, () =>
      toJson({
        type: 'function_call_output',
        call_id: id,
        output: toResultContent(message.content),
      }),
    );
  }
  return encoded.bytes(message, '', () =>
    toJson({ role: message.role, content: toContent(message.content) }),
  );
}

/** Writes an item, or returns an earlier one as it came. */
function toJson(item: ResponsesItem | WireObject): string {
  return `,${JSON.stringify(item)}`;
}

function toAssistantItems(
  message: AssistantMessage,
  wireIds: WireIds,
  output: readonly WireObject[],
): readonly (ResponsesItem | WireObject)[] {
  const { content, toolCalls = [] } = message;
  const calls = toolCalls.map((call) => toFunctionCall(call, wireIds));
  const theirIds = toolCalls.map(({ toolCallId, providerCallId = toolCallId }) => providerCallId);
  const replayed = replayedOutput(output, { text: content, calls, theirIds });
  if (replayed.length > 0) return replayed;
  return content === '' && calls.length > 0 ? calls : [{ role: 'assistant', content }, ...calls];
}

function toFunctionCall(call: ToolCall, wireIds: WireIds): ResponsesCall {
  const { toolCallId, name, arguments: text } = call;
  const id = wireIds.get(toolCallId) ?? toolCallId;
  return {
    type: 'function_call',
    call_id: id,
    name: toWireName(name),
    arguments: toWireArguments(text),
  };
}

function toContent(content: UserMessage['content']): string | readonly ResponsesPart[] {
  return typeof content === 'string' ? content : content.map(toPart);
}

/**
 * Writes the content of a result. Text stays one text, since not every compatible server reads a
 * result in parts.
 */
function toResultContent(content: UserMessage['content']): string | readonly ResponsesPart[] {
  if (typeof content === 'string') return content;
  const texts = content.filter((part) => part.type === 'text').map(({ text }) => text);
  return texts.length === content.length ? texts.join('\n') : content.map(toPart);
}

function toPart(part: ContentPart): ResponsesPart {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'image':
      return { type: 'input_image', image_url: part.url, detail: 'auto' };
    case 'file': {
      const audio = audioPart(part);
      if (audio !== undefined)
        return typeof audio === 'string' ? { type: 'input_text', text: audio } : audio;
      if (!part.url.startsWith('data:')) return { type: 'input_file', file_url: part.url };
      return { type: 'input_file', filename: fileName(part), file_data: part.url };
    }
  }
}

/** An answer as the transcript holds it, in the format of the API. */
export interface TranscriptAnswer {
  readonly text: string;
  readonly calls: readonly ResponsesCall[];
  /** The ids under which the provider made the calls. */
  readonly theirIds: readonly string[];
}

/**
 * The items that can be sent back alone. Any other call would need an output, which does not exist
 * here, and is left out.
 */
const SELF_SUFFICIENT = new Set<unknown>([
  'function_call',
  'compaction',
  'tool_search_output',
  ...PROVIDER_CALLS,
]);

/**
 * Returns the output items of an earlier answer as input: encrypted reasoning verbatim, in its
 * place before the item that it led to. Returns none when the transcript differs from the items:
 * then the transcript counts. A transcript can come from anywhere, so only the kinds of item that
 * an answer can have pass.
 */
export function replayedOutput(
  output: readonly WireObject[],
  answer: TranscriptAnswer,
): readonly WireObject[] {
  const ours = output.filter(({ type }) => type === 'function_call');
  const isSame =
    ours.length === answer.calls.length &&
    ours.every(({ call_id: id }, index) => id === answer.theirIds[index]);
  if (!isSame || textOf(output) !== answer.text) return [];
  const calls = answer.calls.values();
  return output
    .filter(
      (item, index) =>
        canReturn(item) && !(isReasoning(item) && leadsNowhere(output.slice(index + 1))),
    )
    .map((item) =>
      item.type === 'function_call' ? Object.assign({}, item, calls.next().value) : item,
    );
}

function canReturn(item: WireObject): boolean {
  if (item.type === 'message') return item.role === 'assistant';
  // Of reasoning that is neither encrypted nor in the open the provider would have to remember the
  // id, and it stores nothing.
  if (isReasoning(item))
    return typeof item.encrypted_content === 'string' || wireObjectsIn(item.content).length > 0;
  return SELF_SUFFICIENT.has(item.type) && item.execution !== 'client';
}

/**
 * Tells whether the item after some reasoning is missing in the input: the API refuses such
 * reasoning.
 */
function leadsNowhere(following: readonly WireObject[]): boolean {
  const next = following.find((item) => !isReasoning(item));
  return next === undefined || !canReturn(next);
}

function isReasoning({ type }: WireObject): boolean {
  return type === 'reasoning';
}

function textOf(output: readonly WireObject[]): string {
  const parts = output
    .filter(({ type }) => type === 'message')
    .flatMap(({ content }) => wireObjectsIn(content));
  return parts
    .map(({ type, text }) => (type === 'output_text' && typeof text === 'string' ? text : ''))
    .join('');
}

/** A part of a message, or of a tool's result. */
export type ResponsesPart =
  | AudioPart
  | { readonly type: 'input_text'; readonly text: string }
  | { readonly type: 'input_image'; readonly image_url: string; readonly detail: 'auto' }
  | { readonly type: 'input_file'; readonly filename: string; readonly file_data: string }
  | { readonly type: 'input_file'; readonly file_url: string };

/** A call as it is sent back to the model that made it. */
export interface ResponsesCall {
  readonly type: 'function_call';
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string;
}

/**
 * One item of the input of `POST /responses`
 * (https://platform.openai.com/docs/api-reference/responses/create).
 */
export type ResponsesItem =
  | {
      readonly role: 'system' | 'user' | 'assistant';
      readonly content: string | readonly ResponsesPart[];
    }
  | ResponsesCall
  | {
      readonly type: 'function_call_output';
      readonly call_id: string;
      readonly output: string | readonly ResponsesPart[];
    };

/** A tool as the model sees it. */
export interface ResponsesTool {
  readonly type: 'function';
  readonly name: string;
  readonly description: string;
  readonly parameters: object;
  readonly strict: boolean;
}
