import type { AssistantMessage } from '@toolloop/core';
import { isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';

/**
 * What one model wants to see again. Thinking is signed and refused when anything about it or before it has changed, so an answer goes back in the
 * blocks it came in. Other models cannot read such blocks, so they are sent to the model they came from only.
 */
export interface ProviderData {
  readonly model: string;
  /**
   * The blocks in order. One of another kind than text and calls stands whole. A text has its `length` instead of its words and a call its `id`
   * alone: the words and the arguments are in the message.
   */
  readonly blocks?: readonly WireObject[];
  /** Where the provider's code execution keeps its files. */
  readonly container?: string;
  /** Why a model refused. */
  readonly refusal?: WireObject;
}

/** The provider data of a message, where it came from this model. A transcript can come from anywhere, so every field is looked at. */
export function providerDataOf(message: AssistantMessage, model: string): ProviderData | undefined {
  const data = message.providerData?.anthropic;
  if (!isWireObject(data) || data.model !== model) return undefined;
  return {
    model,
    ...(Array.isArray(data.blocks) && { blocks: wireObjectsIn(data.blocks) }),
    ...(typeof data.container === 'string' && { container: data.container }),
  };
}

/** Undefined when there is nothing to keep. */
export function toProviderData(data: ProviderData): { readonly anthropic: ProviderData } | undefined {
  return Object.keys(data).length > 1 ? { anthropic: data } : undefined;
}

/** Whether a message's text and calls alone give the same blocks: one text, then calls that the model made itself. */
export function isPlain(blocks: readonly WireObject[]): boolean {
  return blocks.every((block, index) => {
    if (block.type === 'text') return index === 0 && block.citations === undefined;
    return block.type === 'tool_use' && Object.keys(block).length === 2;
  });
}
