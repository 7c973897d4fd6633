import type {
  AssistantMessage,
  ContentPart,
  Message,
  ModelRequest,
  ToolCall,
  ToolChoice,
  ToolMessage,
  ToolSpec,
  UserMessage,
} from '@toolloop/protocol';
import {
  CallNaming,
  EncodedOnce,
  GrowingBytes,
  type IdFit,
  type JsonPart,
  LastText,
  listOf,
  RequestBody,
  ToolEncoder,
  Transcripts,
  type TranscriptWriter,
  toWireArguments,
  toWireName,
  type WireIds,
  type WireObject,
} from '@toolloop/wire';
import { contentIn } from './content-parts.js';
import { type OpenAiTarget, serverAt } from './openai-options.js';
import {
  type AnswerOrigin,
  MOST_CHAT_ID_CHARACTERS,
  type ProviderData,
  providerDataOf,
} from './provider-data.js';
import {
  type AudioPart,
  audioPart,
  fileName,
  fitForm,
  fitTo,
  toJsonSchemaFormat,
} from './request-parts.js';
import { habitsOf, type ServerHabits } from './server-habits.js';
import { toStrictSchema } from './strict-schema.js';

/**
 * Writes the body of `POST /chat/completions` as JSON text, also for an application that sends the
 * request itself.
 */
export function toChatRequest(request: ModelRequest, target: OpenAiTarget): string {
  const { model, baseURL } = target;
  return chatBody(request, target, chatReader({ model, server: serverAt(baseURL) })).toJson();
}

function toTool({ id: name, description, inputSchema }: ToolSpec, strict?: object): ChatTool {
  return {
    type: 'function',
    function: {
      name,
      description,
      parameters: strict ?? inputSchema,
      ...(strict && { strict: true }),
    },
  };
}

const strictTools = new ToolEncoder((spec) => toTool(spec, toStrictSchema(spec.inputSchema)));
const looseTools = new ToolEncoder((spec) => toTool(spec));

/** The model, the server and the habits for which a transcript is written. */
export interface ChatReader extends AnswerOrigin {
  readonly habits: ServerHabits;
  /** Names the habits. */
  readonly habitsKey: string;
  /** Names all of it. */
  readonly key: string;
}

/** @param habits what is known of the server beyond the table of servers */
export function chatReader(origin: AnswerOrigin, habits = habitsOf(origin)): ChatReader {
  const habitsKey = [habits.reasoning, habits.signature].join();
  return {
    ...origin,
    habits,
    habitsKey,
    key: JSON.stringify([origin.model, origin.server, habitsKey]),
  };
}

/**
 * Writes the body of `POST /chat/completions` from parts that are encoded once and known by
 * identity.
 */
export function chatBody(
  request: ModelRequest,
  target: OpenAiTarget,
  reader: ChatReader,
): RequestBody {
  const { instructions, messages, tools, toolChoice, answerFormat, options = {} } = request;
  const body = new RequestBody();
  body.setAll({ model: target.model });
  body.setJson(
    'messages',
    ...transcripts
      .written(messages, reader.key, () => new ChatTranscript(reader))
      .behind(instructions),
  );
  body.setJson('stream', 'true');
  body.setJson('stream_options', '{"include_usage":true}');
  // Providers refuse an empty list, and options for one.
  if (tools.length > 0) {
    body.setJson(
      'tools',
      ...listOf((target.strictTools !== false ? strictTools : looseTools).toItems(tools)),
    );
    body.setAll({
      tool_choice: toolChoice && toToolChoice(toolChoice),
      parallel_tool_calls: target.parallelToolCalls,
    });
  }
  if (answerFormat !== undefined) {
    body.setJson(
      'response_format',
      '{"type":"json_schema","json_schema":',
      toJsonSchemaFormat(answerFormat),
      '}',
    );
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
  return body;
}

function toToolChoice(choice: ToolChoice): unknown {
  return typeof choice === 'string'
    ? choice
    : { type: 'function', function: { name: choice.tool } };
}

const NOUNS = { image: 'An image', file: 'A file' };

const encoded = new EncodedOnce<Message>();

/**
 * The encoded images and files of tool messages, as parts of the user message that has to carry
 * them.
 */
const encodedAttachments = new EncodedOnce<ToolMessage>();

/** The `messages` of a request, each with a comma before it. */
class ChatTranscript implements TranscriptWriter {
  private readonly bytes = new GrowingBytes();
  private readonly naming: CallNaming;
  private wireIds: WireIds = new Map();
  private attachments: Uint8Array[] = [];
  private readonly system = new LastText();

  constructor(private readonly reader: ChatReader) {
    const { callId } = reader.habits;
    this.naming = new CallNaming(
      callId ? fitForm(callId.form, callId.characters) : fitTo(MOST_CHAT_ID_CHARACTERS),
    );
  }

  take(message: Message): void {
    if (message.role !== 'tool') {
      this.bytes.add(toCarrier(this.attachments));
      this.attachments = [];
    }
    this.bytes.add([
      message.role === 'assistant' ? this.takeAnswer(message) : toItem(message, this.wireIds),
    ]);
    if (message.role === 'tool' && hasAttachment(message.content))
      this.attachments.push(toAttachmentParts(message));
  }

  private takeAnswer(message: AssistantMessage): Uint8Array {
    const { reader } = this;
    const data = providerDataOf(message, reader);
    this.wireIds = this.naming.name(message.toolCalls ?? [], data && OWN_ID);
    const key = [data ? reader.key : reader.habitsKey, ...this.wireIds.values()].join();
    return encoded.bytes(message, key, () =>
      toJson(toAssistant(message, this.wireIds, { data, habits: reader.habits })),
    );
  }

  /** Writes the whole list, behind the instructions. */
  behind(instructions: string | undefined): readonly JsonPart[] {
    const system =
      instructions === undefined
        ? []
        : [
            this.system.bytes(instructions, () =>
              toJson({ role: 'system', content: instructions }),
            ),
          ];
    return listOf([...system, ...this.bytes.pieces, ...toCarrier(this.attachments)]);
  }
}

const transcripts = new Transcripts<ChatTranscript>();

/** Leaves an id as the same server made it, however long. */
const OWN_ID: IdFit = (id) => id;

function toItem(message: Exclude<Message, AssistantMessage>, wireIds: WireIds): Uint8Array {
  if (message.role === 'tool') {
    const id = wireIds.get(message.toolCallId) ?? message.toolCallId;
    return encoded.bytes(message, id, () =>
      toJson({ role: 'tool', tool_call_id: id, content: toToolContent(message.content) }),
    );
  }
  return encoded.bytes(message, '', () =>
    toJson({ role: message.role, content: toContent(message.content) }),
  );
}

/** Writes a message as an item of the list. */
function toJson(message: ChatMessage): string {
  return `,${JSON.stringify(message)}`;
}

function toContent(content: UserMessage['content']): string | readonly ChatPart[] {
  return typeof content === 'string' ? content : content.map(toPart);
}

function toPart(part: ContentPart): ChatPart {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return { type: 'image_url', image_url: { url: part.url } };
    case 'file': {
      const audio = audioPart(part);
      if (audio !== undefined)
        return typeof audio === 'string' ? { type: 'text', text: audio } : audio;
      // This API takes a file's bytes only, and refuses the whole request where it finds a URL.
      if (!part.url.startsWith('data:'))
        return {
          type: 'text',
          text: `[The file ${fileName(part)}, which could not be sent from its URL.]`,
        };
      return { type: 'file', file: { filename: fileName(part), file_data: part.url } };
    }
  }
}

/** The data of an answer that may go to a server, and the habits of that server. */
interface Wanted {
  /** The answer's data, if it came from this server. */
  readonly data: ProviderData | undefined;
  readonly habits: ServerHabits;
}

function toAssistant(message: AssistantMessage, wireIds: WireIds, wanted: Wanted): ChatMessage {
  const { content, toolCalls = [] } = message;
  const { content: pieces, refusal, messageExtra } = wanted.data ?? {};
  const hasCalls = toolCalls.length > 0;
  const parts = pieces && contentIn(pieces, content);
  return {
    role: 'assistant',
    content: parts ?? (content === '' && hasCalls ? null : content),
    refusal: hasCalls ? undefined : refusal,
    tool_calls: hasCalls ? toToolCalls(toolCalls, wireIds, wanted) : undefined,
    ...toReasoning(wanted),
    extra_content: messageExtra,
  };
}

/**
 * Returns the reasoning of an answer in the fields in which it came. Where the server requires a
 * field, an answer without one has it empty.
 */
function toReasoning({ data, habits }: Wanted): ChatReasoning {
  if (habits.reasoning === 'refused') return {};
  const { reasoningContent, reasoning, reasoningDetails, thinkingBlocks } = data ?? {};
  const isLacking = habits.reasoning === 'required' && reasoning === undefined;
  return {
    reasoning_content: reasoningContent ?? (isLacking ? '' : undefined),
    reasoning,
    reasoning_details: reasoningDetails,
    thinking_blocks: thinkingBlocks,
  };
}

/** Writes the calls of an answer. The first of several is the one at which a signature stands. */
function toToolCalls(
  calls: readonly ToolCall[],
  wireIds: WireIds,
  { data, habits }: Wanted,
): readonly ChatToolCall[] {
  const { signature } = habits;
  const { extraContent = {}, specificFields = {} } = data ?? {};
  const added =
    signature !== undefined && data?.extraContent === undefined
      ? { google: { thought_signature: signature } }
      : undefined;
  return calls.map((call, index) => {
    const theirs = call.providerCallId ?? call.toolCallId;
    return {
      id: wireIds.get(call.toolCallId) ?? call.toolCallId,
      type: 'function',
      function: { name: toWireName(call.name), arguments: toWireArguments(call.arguments) },
      extra_content: extraContent[theirs] ?? (index === 0 ? added : undefined),
      provider_specific_fields: specificFields[theirs],
    };
  });
}

/**
 * Writes the content of a tool message. It holds text only, so its images and files follow in a
 * user message.
 */
function toToolContent(content: ToolMessage['content']): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) =>
      part.type === 'text'
        ? part.text
        : `[${NOUNS[part.type]}; it follows in the next user message.]`,
    )
    .join('\n');
}

function hasAttachment(content: ToolMessage['content']): boolean {
  return typeof content !== 'string' && content.some((part) => part.type !== 'text');
}

function toAttachmentParts(message: ToolMessage): Uint8Array {
  return encodedAttachments.bytes(message, '', () => {
    const attachments =
      typeof message.content === 'string'
        ? []
        : message.content.filter((part) => part.type !== 'text');
    const intro: ChatPart = { type: 'text', text: `From the result of ${message.toolName}:` };
    return [intro, ...attachments.map(toPart)].map((part) => `,${JSON.stringify(part)}`).join('');
  });
}

/**
 * Writes the user message with the attachments of all results of a step. It comes behind the last
 * result, since all must follow their assistant message directly.
 */
function toCarrier(attachments: readonly Uint8Array[]): readonly JsonPart[] {
  return attachments.length === 0
    ? []
    : [',{"role":"user","content":', ...listOf(attachments), '}'];
}

/** A part of a message's content. */
export type ChatPart =
  | AudioPart
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }
  | {
      readonly type: 'file';
      readonly file: { readonly filename: string; readonly file_data: string };
    };

/** A call as it is sent back to the model that made it. */
export interface ChatToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
  /** Gemini's thought signature. */
  readonly extra_content?: unknown;
  /** The same behind LiteLLM. */
  readonly provider_specific_fields?: unknown;
}

/** The reasoning that some providers require in their own message. */
export interface ChatReasoning {
  readonly reasoning_content?: string;
  readonly reasoning?: string;
  readonly reasoning_details?: readonly unknown[];
  readonly thinking_blocks?: readonly unknown[];
}

/**
 * One message of `POST /chat/completions`
 * (https://platform.openai.com/docs/api-reference/chat/create).
 */
export type ChatMessage =
  | { readonly role: 'system' | 'user'; readonly content: string | readonly ChatPart[] }
  | ({
      readonly role: 'assistant';
      readonly content: string | null | readonly WireObject[];
      readonly refusal?: string;
      readonly extra_content?: unknown;
      readonly tool_calls?: readonly ChatToolCall[];
    } & ChatReasoning)
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string };

/** A tool as the model sees it. */
export interface ChatTool {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description: string;
    readonly parameters: object;
    readonly strict?: true;
  };
}
