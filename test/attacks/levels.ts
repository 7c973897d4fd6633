import type { Policy } from '@toolloop/core';

/** How far a policy looks at the flow of information, from not at all to the closest. */
export const LEVELS = ['off', 'trifecta', 'effect', 'taint', 'provenance'] as const satisfies readonly NonNullable<Policy['flow']>[];

export type Level = (typeof LEVELS)[number];

/** Everything is allowed: what a level does not stop, nothing stops. */
export function policyAt(flow: Level): Policy {
  return { version: `attacks:${flow}`, allow: ['*'], flow };
}
