import { Inject, Injectable } from '@nestjs/common';
import type { DirectiveIntent } from '../../protocol/directive.js';
import { TOOL_LOOP_OPTIONS } from '../tool-loop.tokens.js';
import type { ToolLoopOptions } from '../tool-loop.options.js';
import { DirectiveScopes } from './directive.scopes.js';

/** What the application says of its directives. */
@Injectable()
export class DirectiveRules {
  constructor(
    @Inject(TOOL_LOOP_OPTIONS) private readonly options: ToolLoopOptions,
    private readonly scopes: DirectiveScopes,
  ) {}

  get operators(): readonly string[] | undefined {
    return this.options.directives?.operators;
  }

  /** Whether the tool of a directive has a way back. */
  canUndo(intent: DirectiveIntent): boolean {
    return this.scopes.toolOf(intent)?.directive.compensate !== undefined;
  }
}
