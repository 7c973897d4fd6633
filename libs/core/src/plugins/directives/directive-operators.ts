/** The people who decide about directives that failed, or whose outcome is unknown. */
export class DirectiveOperators {
  constructor(
    /** Undefined where everybody decides about what they asked for themselves. */
    readonly roles: readonly string[] | undefined,
  ) {}

  /** For a sentence that a model or a person reads. */
  get described(): string {
    return this.roles
      ? `Somebody with the role ${this.roles.join(' or ')}`
      : 'The actor who requested it';
  }
}
