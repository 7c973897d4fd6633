/** The roles that decide about directives that failed, or whose outcome is unknown. */
export class DirectiveOperators {
  constructor(
    /** Undefined: each actor decides about the directives that they requested. */
    readonly roles: readonly string[] | undefined,
  ) {}

  /** For a sentence that a model or a person reads. */
  get described(): string {
    return this.roles
      ? `A person with the role ${this.roles.join(' or ')}`
      : 'The actor who requested it';
  }
}
