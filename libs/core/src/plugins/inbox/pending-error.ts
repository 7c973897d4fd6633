/**
 * Thrown for an answer that is not accepted: the person who gave it has to act. Over HTTP
 * `not_found` is a 404, the others are a 403, 409 or 400. `withdrawn`: the run has ended, so a
 * decision would have no effect. `held`: an operator has stopped the tool for now.
 */
export class PendingError extends Error {
  override readonly name = 'PendingError';

  constructor(
    readonly code:
      | 'not_found'
      | 'not_permitted'
      | 'already_answered'
      | 'expired'
      | 'withdrawn'
      | 'held'
      | 'invalid_answer',
    message: string,
  ) {
    super(message);
  }
}
