/** Thrown to say that a call was not made yet: a signal, no failure. It passes every filter and every retry, and only the runner takes it. */
export class CallPending extends Error {
  override readonly name = 'CallPending';

  /** Without an approval's id the call waits for an earlier one of its step. */
  constructor(readonly approvalId?: string) {
    super('The call waits for a decision.');
  }
}
