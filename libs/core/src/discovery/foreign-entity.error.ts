/** A resolver gave another instance than it was asked for: a mistake of the application, of which the model learns nothing. */
export class ForeignEntityError extends Error {
  override readonly name = 'ForeignEntityError';

  /** Names the class and what is wrong, never a value. */
  constructor(entity: string, what: string) {
    super(`The resolver of ${entity} gave ${what}. It was not called.`);
  }
}
