/** Why a decision about an approval was not taken: whoever decided must act. Over HTTP `not_found` is a 404, the others are a 403, 409 or 400. `withdrawn`: the run that asked has ended, so nothing would follow. */
export class ApprovalError extends Error {
  override readonly name = 'ApprovalError';

  constructor(
    readonly code: 'not_found' | 'not_permitted' | 'already_decided' | 'expired' | 'withdrawn' | 'invalid_decision',
    message: string,
  ) {
    super(message);
  }
}
