/** What an expectation of this library throws: a plain error that says what was there, so that any test runner shows it. */
export class ExpectationError extends Error {
  override readonly name = 'ExpectationError';
}
