import { Injectable } from '@nestjs/common';
import { DirectiveOperators } from '../../execution/directive.operators.js';
import type { DirectiveIntent } from '../../protocol/directive.js';
import { DirectiveScopes } from './directive.scopes.js';

/** What the application says of its directives. */
@Injectable()
export class DirectiveRules {
  constructor(
    readonly operators: DirectiveOperators,
    private readonly scopes: DirectiveScopes,
  ) {}

  /** Whether the tool of a directive has a way back. */
  canUndo(intent: DirectiveIntent): boolean {
    return this.scopes.toolOf(intent)?.directive.compensate !== undefined;
  }
}
