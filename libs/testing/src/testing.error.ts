import type { ModelRequest } from '@toolloop/protocol';

/**
 * Thrown by a failed expectation. Its message holds the actual values, so that any test runner
 * shows them.
 */
export class ExpectationError extends Error {
  override readonly name = 'ExpectationError';
}

/**
 * Thrown for one model call too many. The loop turns it into a failed run, so
 * {@link ScriptedModel.assertComplete} throws it once more.
 */
export class UnexpectedModelCallError extends Error {
  override readonly name = 'UnexpectedModelCallError';

  constructor(
    readonly request: ModelRequest,
    /** The number of answers in the script. */
    readonly answers: number,
  ) {
    super(
      `The script has ${answers} ${answers === 1 ? 'answer' : 'answers'} and the model was called once more. ` +
        `The last message of that request: ${toExcerpt(request.messages.at(-1) ?? 'none')}`,
    );
  }
}

/**
 * Thrown for a request that a cassette has no answer to. The loop turns it into a failed run, so
 * {@link CassetteModel.assertComplete} throws it once more.
 */
export class CassetteMissError extends Error {
  override readonly name = 'CassetteMissError';
}

const LENGTH = 300;

/** Writes a value as one line of a failure's message, cut to 300 characters. */
export function toExcerpt(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > LENGTH ? `${text.slice(0, LENGTH)}…` : text;
}
