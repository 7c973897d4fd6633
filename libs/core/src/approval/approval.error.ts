/** Why a decision about an approval was not taken: whoever decided must act. Over HTTP `not_found` is a 404, the others are a 403, 409 or 400. */
export class ApprovalError extends Error {
  override readonly name = 'ApprovalError';

  constructor(
    readonly code: 'not_found' | 'not_permitted' | 'already_decided' | 'expired' | 'invalid_decision',
    message: string,
  ) {
    super(message);
  }
}
