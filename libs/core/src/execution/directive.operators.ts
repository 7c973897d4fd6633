/** Who decides about what failed or nobody knows of. */
export class DirectiveOperators {
  constructor(
    /** Undefined where everybody decides about what they asked for themselves. */
    readonly roles: readonly string[] | undefined,
  ) {}

  /** For a sentence that a model or a person reads. */
  get described(): string {
    return this.roles ? `Somebody with the role ${this.roles.join(' or ')}` : 'Whoever asked for it';
  }
}
