/** The reason for which a database refuses a write. Its message is for logs. */
export class ResourceWriteError extends Error {
  override readonly name = 'ResourceWriteError';

  constructor(
    /**
     * `range`: a number is beyond its column. `conflict`: another one has written meanwhile.
     * `timeout`: a statement took too long.
     */
    readonly reason:
      'unique' | 'required' | 'reference' | 'check' | 'range' | 'tenant' | 'conflict' | 'timeout',
    /** The constraint or the column that the database names. */
    readonly subject: string,
    options: { readonly cause?: unknown },
  ) {
    super(`The database refuses the write (${reason}: ${subject}).`, options);
  }
}
