import type { LoopEventBody } from '@toolloop/protocol';

/**
 * The end of telling an event: a promise only where a reader makes the run wait. Every streamed
 * text is told, and a promise for each would be felt; a stage awaits either of them.
 */
export type Told = void | Promise<void>;

/** Tells an event of a run. */
export type EmitEvent = (event: LoopEventBody) => Told;
