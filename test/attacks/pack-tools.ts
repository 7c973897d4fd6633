import { type JsonObject, tool, type ToolCallContext } from '@toolloop/core';
import type { AttackedTools } from './attack.application.js';
import type { Pack, PackTool } from './pack.js';
import { RunWorld } from './run.world.js';

export type RawTool = ReturnType<typeof tool>;

/** The tools of a pack as an application would declare them. */
export function packTools({ name, tools }: Pack): AttackedTools {
  const declared = tools.map(({ id, description, input, effect, labels, does }) =>
    tool<JsonObject>({
      id,
      description,
      input,
      effect,
      reveal: 'all',
      ...(labels && { labels }),
      execute: (args, context) => worldOf(context).perform(context.toolCallId, does, args),
    }),
  );
  return { name: `the pack ${name}`, tools: declared };
}

/**
 * Whether a call of the tool can carry data out; where the label is left to its default, that is
 * what the effect says.
 */
export function isEgress({ effect, labels }: PackTool): boolean {
  return labels?.egress ?? effect === 'external_side_effect';
}

/** Whether the tool's results are nobody else's business, which is the default. */
export function isPrivate({ labels }: PackTool): boolean {
  return labels?.reads !== 'public';
}

function worldOf({ context }: ToolCallContext): RunWorld {
  const world = context['world'];
  if (!(world instanceof RunWorld))
    throw new TypeError('A run of a pack needs its world in the context.');
  return world;
}
