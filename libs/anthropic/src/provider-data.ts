import type { AssistantMessage } from '@toolloop/protocol';
import { isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';

/**
 * The blocks of an answer that its model requires in later requests. Thinking is signed and refused
 * when it or anything before it has changed, so an answer is sent back in the blocks it came in.
 * Other models cannot read such blocks, so they are sent to the model and the server they came from
 * only.
 */
export interface ProviderData extends AnswerOrigin {
  /**
   * The blocks in order. A text has its `length` instead of its words and a call its `id` alone:
   * the words and the arguments are in the message. A block of any other kind is kept whole.
   */
  readonly blocks?: readonly WireObject[];
  /** The id of the container in which the provider's code execution keeps its files. */
  readonly container?: string;
  /** The details of a refusal. */
  readonly refusal?: WireObject;
}

/** The model and the server that an answer came from, or that a transcript goes to. */
export interface AnswerOrigin {
  readonly model: string;
  /**
   * The host of the server, with its port. @default not known, as in an answer that was decoded by
   * hand
   */
  readonly server?: string;
}

/**
 * Reads the provider data of a message that came from this model and server. A transcript can come
 * from anywhere, so every field is checked.
 */
export function providerDataOf(
  message: AssistantMessage,
  { model, server }: AnswerOrigin,
): ProviderData | undefined {
  const data = message.providerData?.anthropic;
  if (!isWireObject(data) || data.model !== model || !mayRead(model, data.server, server))
    return undefined;
  return {
    model,
    ...(Array.isArray(data.blocks) && { blocks: wireObjectsIn(data.blocks) }),
    ...(typeof data.container === 'string' && { container: data.container }),
  };
}

/**
 * Tells whether a server reads the blocks of another. Those of Claude are valid wherever Claude is
 * served; the model's name decides if a server is not known.
 */
function mayRead(model: string, from: unknown, to: string | undefined): boolean {
  return from === undefined || to === undefined || from === to || model.includes('claude');
}

/** Wraps the provider data of a message; undefined when there is none. */
export function toProviderData(
  data: ProviderData,
): { readonly anthropic: ProviderData } | undefined {
  const { model: _model, server: _server, ...parts } = data;
  return Object.keys(parts).length > 0 ? { anthropic: data } : undefined;
}

/**
 * Tells whether a message's text and calls alone give the same blocks: one text, then calls that
 * the model made itself.
 */
export function isPlain(blocks: readonly WireObject[]): boolean {
  return blocks.every((block, index) => {
    if (block.type === 'text') return index === 0 && block.citations === undefined;
    return block.type === 'tool_use' && Object.keys(block).length === 2;
  });
}
