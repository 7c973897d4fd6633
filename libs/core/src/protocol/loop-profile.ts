import type { Type } from '@nestjs/common';
import type { LoopRequest } from './loop-request.js';
import type { RegisteredActor } from './register.js';

/** What only a run can say: what is asked, for whom, and which request it is. */
export const SAID_BY_THE_RUN = [
  'prompt',
  'messages',
  'actor',
  'tenant',
  'context',
  'requestId',
  'conversationId',
  'signal',
] as const satisfies readonly (keyof LoopRequest)[];

/**
 * What a named loop says for its runs. `policy`, `tools` and `exclude` narrow, as they do in a request: application, loop and run must all let a tool in.
 * Injection strategies add up, and `false` turns injection off. In all else the run wins over the loop, and the loop over the application; `limits` and
 * `execution` do so option by option.
 */
export type LoopProfile<Actor = RegisteredActor> = Omit<LoopRequest<unknown, Actor>, (typeof SAID_BY_THE_RUN)[number] | 'output'> & {
  /** A class the final answers must be; of which type a result is then, its caller says. A durable run has it from nowhere else. @default none */
  readonly output?: Type;
};
