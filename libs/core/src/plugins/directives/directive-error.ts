/**
 * A change of a directive that is not possible; the message says why. Over HTTP: 404, 403, 409,
 * 400.
 */
export class DirectiveError extends Error {
  override readonly name = 'DirectiveError';

  constructor(
    readonly code: DirectiveErrorCode,
    message: string,
  ) {
    super(message);
  }
}

/** Why something cannot be done with a directive. */
export type DirectiveErrorCode = 'not_found' | 'not_permitted' | 'not_possible' | 'outcome_needed';
