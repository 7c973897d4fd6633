import type { RegisteredActor } from './registered-actor.js';

/**
 * The person who takes an operator's action: as the application identified them, never as a client
 * says.
 */
export interface Operator<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

/** The actions that only operators may take. */
export type OperatorAction =
  | 'policy'
  | 'killSwitch'
  | 'explain'
  | 'replay'
  | 'usage'
  | 'sources'
  | 'undo'
  | 'runs'
  | 'audit'
  | 'viewAs'
  | 'devTools';

/**
 * The application's answer to who is an operator. `true` permits an action in the actor's own
 * tenant, `'all'` in every tenant; anything else, a promise and an exception included, does not
 * permit it.
 *
 * @example
 * operators: (user, action) => user.roles.includes('ops') && (action === 'usage' ? 'all' : true)
 */
export type OperatorRule<Actor = RegisteredActor> = (
  actor: Actor,
  action: OperatorAction,
) => boolean | 'all';

/** Thrown for an action that this person may not take. Over HTTP it is a 403. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
  readonly code = 'not_permitted';

  constructor(readonly action: OperatorAction) {
    super(
      `Only operators may do this ("${action}"). ToolLoopModule.forRoot({ operators }) says who is one, and in which tenants.`,
    );
  }
}
