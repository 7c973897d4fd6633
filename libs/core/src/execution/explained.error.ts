import type { ToolCallContext } from '../protocol/tool-call-context.js';
import type { ToolFailure } from '../protocol/tool-error.js';
import type { ToolLayers } from '../protocol/tool-layers.js';
import { CallFailure, failureOf } from './call.failure.js';
import { Interruption, untilAborted } from './interruption.js';

const MOST_CHARACTERS = 2_000;

/**
 * The failure as an exception filter tells it; undefined when no filter is responsible. A filter words an error, it never turns one into a success.
 * Our own signals pass untouched: they are not the application's errors.
 */
export async function explained(
  layers: ToolLayers | undefined,
  error: unknown,
  { input, context }: { readonly input: unknown; readonly context: ToolCallContext },
): Promise<ToolFailure | undefined> {
  if (!layers || error instanceof CallFailure || error instanceof Interruption) return undefined;
  try {
    const detail: unknown = await untilAborted(layers.explain(error, input, context), context.signal);
    if (detail === undefined || detail === null) return undefined;
    const text = typeof detail === 'string' ? detail : JSON.stringify(detail);
    const { correlationId: _unneeded, ...failure } = failureOf(error);
    return { ...failure, safeMessage: text.slice(0, MOST_CHARACTERS) };
  } catch (thrown) {
    // Nest hands back what no filter caught; a filter that throws itself, such as one made for HTTP, has nothing to say here either.
    if (thrown !== error) context.logger.warn(`An exception filter failed on a tool call (${context.toolCallId}).`, thrown);
    return undefined;
  }
}
