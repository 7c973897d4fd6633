import type { Policy } from '@toolloop/core';

/** How far a policy looks at the flow of information, from not at all to the closest. */
export const LEVELS = ['off', 'trifecta', 'effect', 'taint', 'provenance'] as const satisfies readonly NonNullable<Policy['flow']>[];

export type Level = (typeof LEVELS)[number];

/** Everything is allowed: what a level does not stop, nothing stops. */
export function policyAt(flow: Level, outsideBits?: number): Policy {
  return { version: `attacks:${flow}`, allow: ['*'], flow, ...(outsideBits !== undefined && { outsideBits }) };
}

/** Measures at one level after the other. */
export async function atEachLevel<Measured>(measure: (level: Level) => Promise<Measured>): Promise<Record<Level, Measured>> {
  const off = await measure('off');
  const trifecta = await measure('trifecta');
  const effect = await measure('effect');
  const taint = await measure('taint');
  return { off, trifecta, effect, taint, provenance: await measure('provenance') };
}

/** Makes another value of each level's. */
export function ofEachLevel<From, To>({ off, ...others }: Readonly<Record<Level, From>>, to: (from: From) => To): Record<Level, To> {
  const { trifecta, effect, taint, provenance } = others;
  return { off: to(off), trifecta: to(trifecta), effect: to(effect), taint: to(taint), provenance: to(provenance) };
}
