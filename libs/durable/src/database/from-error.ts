/** What the database, or Node, said of an error. Errors of another realm are errors as well, so nobody asks `instanceof`. */
export interface ErrorSaid {
  /** Such as `ECONNREFUSED` or `28P01`; empty where there is none. */
  readonly code: string;
  readonly message: string;
}

export function fromError(error: unknown): ErrorSaid {
  const { code, message } = (error ?? {}) as Partial<Record<keyof ErrorSaid, unknown>>;
  return { code: typeof code === 'string' ? code : '', message: typeof message === 'string' ? message : String(error) };
}
