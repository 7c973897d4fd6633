import type { ModelRequest } from '@toolloop/core';
import { toExcerpt } from './to-excerpt.js';

/** One model call too many. The loop turns it into a failed run, so {@link ScriptedModel.assertComplete} throws it once more. */
export class UnexpectedModelCallError extends Error {
  override readonly name = 'UnexpectedModelCallError';

  constructor(
    readonly request: ModelRequest,
    /** How many answers the script has. */
    readonly answers: number,
  ) {
    super(
      `The script has ${answers} ${answers === 1 ? 'answer' : 'answers'} and the model was called once more. ` +
        `The last message of that request: ${toExcerpt(request.messages.at(-1) ?? 'none')}`,
    );
  }
}
