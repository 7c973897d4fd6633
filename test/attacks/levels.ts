import type { Policy } from '@toolloop/core';

/** How far a policy looks at the flow of information, from not at all to the closest. */
export const LEVELS = ['off', 'trifecta', 'taint'] as const satisfies readonly NonNullable<
  Policy['flow']
>[];

export type Level = (typeof LEVELS)[number];

/**
 * The levels of replayed runs, with a plan where the model makes one first. The models of packs
 * write what they have read: they cannot work with references, and plan nothing.
 */
export const REPLAYED_LEVELS = [...LEVELS, 'values', 'taint, planned', 'values, planned'] as const;

export type ReplayedLevel = (typeof REPLAYED_LEVELS)[number];

/** Tells whether the model is offered to plan its changes. */
export function isPlanned(level: ReplayedLevel): boolean {
  return level === 'taint, planned' || level === 'values, planned';
}

/** Everything is allowed: what a level does not stop, nothing stops. */
export function policyAt(level: ReplayedLevel, outsideBits?: number): Policy {
  const flow =
    level === 'taint, planned' ? 'taint' : level === 'values, planned' ? 'values' : level;
  return {
    version: `attacks:${level}`,
    allow: ['*'],
    flow,
    ...(outsideBits !== undefined && { outsideBits }),
  };
}

/** Measures at one level after the other. */
export async function atEachLevel<Measured>(
  measure: (level: Level) => Promise<Measured>,
): Promise<Record<Level, Measured>> {
  const off = await measure('off');
  const trifecta = await measure('trifecta');
  return { off, trifecta, taint: await measure('taint') };
}

/** Measures at the levels of replayed runs. */
export async function atEachReplayedLevel<Measured>(
  measure: (level: ReplayedLevel) => Promise<Measured>,
): Promise<Record<ReplayedLevel, Measured>> {
  return {
    ...(await atEachLevel(measure)),
    values: await measure('values'),
    'taint, planned': await measure('taint, planned'),
    'values, planned': await measure('values, planned'),
  };
}

/** Makes another value of each level's. */
export function ofEachLevel<From, To>(
  { off, trifecta, taint }: Readonly<Record<Level, From>>,
  to: (from: From) => To,
): Record<Level, To> {
  return { off: to(off), trifecta: to(trifecta), taint: to(taint) };
}

/** Makes another value of each level's, of replayed runs. */
export function ofEachReplayedLevel<From, To>(
  measured: Readonly<Record<ReplayedLevel, From>>,
  to: (from: From, level: ReplayedLevel) => To,
): Record<ReplayedLevel, To> {
  const { off, trifecta, taint, values } = measured;
  return {
    off: to(off, 'off'),
    trifecta: to(trifecta, 'trifecta'),
    taint: to(taint, 'taint'),
    values: to(values, 'values'),
    'taint, planned': to(measured['taint, planned'], 'taint, planned'),
    'values, planned': to(measured['values, planned'], 'values, planned'),
  };
}
