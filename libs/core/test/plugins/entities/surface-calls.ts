import { call, calls, type ScriptedCall } from '@toolloop/testing';

/** The surfaces that a run can be told to use, and stays with. */
export const SURFACES = ['named', 'grouped', 'dispatcher'] as const;

export type KnownSurface = (typeof SURFACES)[number];

/** A method of an entity, as a model says it. */
export interface SaidCall {
  readonly prefix: string;
  readonly id: string;
  readonly method: string;
  /** JSON text, malformed too. @default none */
  readonly args?: string;
}

/** The same call, as it is made over each surface. */
export function over(surface: KnownSurface, { prefix, id, method, args }: SaidCall): ScriptedCall {
  const [own, said] = [args ?? '{}', args === undefined ? '' : `,"args":${args}`];
  if (surface === 'named') return call(`${prefix}_${id}_${method}`, own);
  if (surface === 'grouped')
    return call(`${prefix}__${method}`, `{"id":${JSON.stringify(id)}${said}}`);
  return call(
    'entity__call',
    `{"entity":"${prefix}","id":${JSON.stringify(id)},"method":"${method}"${said}}`,
  );
}

/** Shows what the test's `act` gives for a key. */
export const show = (key: string) => calls(call('probe__show', { key }));
