/** One step of the schema, in the order of the numbers. What was released is never changed: what is wrong with it is mended by the next. */
export interface Migration {
  /** From 1, without a gap. */
  readonly version: number;
  readonly name: string;
  /** One statement each, the same on PGlite and PostgreSQL. */
  readonly statements: readonly string[];
}
