import type { LoopEventBody } from '@toolloop/protocol';

/** Tells an event of a run. */
export type EmitEvent = (event: LoopEventBody) => Told;

/**
 * The end of telling an event: a promise only if a reader makes the run wait. Every streamed text
 * is told, and with a promise for each it takes twice as long to read one; a stage awaits both.
 */
export type Told = void | Promise<void>;
