/** The actor's type: what {@link Register} says, else `unknown`. */
export type RegisteredActor = Register extends { actor: infer Actor } ? Actor : unknown;

/**
 * Types the actor once for the whole application:
 *
 * ```ts no-run
 * declare module '@toolloop/core' { interface Register { actor: User } }
 * ```
 */
export interface Register {}
