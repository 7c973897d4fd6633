/** The ways in which a step touches the world. */
const KINDS = ['look', 'pay', 'act', 'order', 'book'] as const;

/**
 * `look` only reads. `pay` has a key that its receiver knows again: exactly once. `act` has none:
 * once, and once more for each time that nobody knew and a person said yes to another; not at all,
 * perhaps, where one said no. `order` has a key and needs a person's yes: exactly once. `book`
 * writes into the same database, in the call's transaction: exactly once.
 */
export type Kind = (typeof KINDS)[number];

/** What a run says in its prompt, so that every process knows what it is to do. */
export interface RunPlan {
  readonly name: string;
  readonly steps: number;
  readonly seed: number;
}

const WEIGHTS: Readonly<Record<Kind, number>> = { look: 2, pay: 3, act: 2, order: 1, book: 2 };
const WEIGHTED = KINDS.flatMap((kind) => Array.from({ length: WEIGHTS[kind] }, () => kind));

/** What the call of a step does: always the same for the same run, whoever asks. */
export function kindAt({ name, seed }: RunPlan, step: number): Kind {
  let hash = 2_166_136_261 ^ seed;
  for (const character of `${name}/${step}`)
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16_777_619);
  hash = Math.imul(hash ^ (hash >>> 16), 2_246_822_507);
  return WEIGHTED[((hash ^ (hash >>> 13)) >>> 0) % WEIGHTED.length] ?? 'look';
}

/** Where an effect belongs: no two calls of all runs share it. */
export function placeOf({ name }: RunPlan, step: number): string {
  return `${name}/${step}`;
}

/** By what the model names the call of a step. */
export function callIdOf(step: number): string {
  return `call_${step}`;
}

export function promptOf(plan: RunPlan): string {
  return JSON.stringify(plan);
}

export function planOf(prompt: string): RunPlan {
  return JSON.parse(prompt) as RunPlan;
}
