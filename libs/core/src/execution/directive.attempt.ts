import { HttpException } from '@nestjs/common';
import { ToolError, type ToolFailure } from '../protocol/tool-error.js';
import type { Tool } from '../protocol/tool.js';
import { CallFailure, failureOf } from './call.failure.js';
import { askedWait } from './retry-delay.js';

/** One attempt to have the effect of a directive, as the pipeline and whoever makes the attempt share it. */
export class DirectiveAttempt {
  /** Whether the method may have been called. */
  hasBegun = false;
  /** Milliseconds to wait at least before another attempt; undefined where that would fail as well, or nobody knows. */
  retryAfterMs: number | undefined;

  constructor(
    /** Of the effect. */
    readonly idempotencyKey: string,
    /** Asked when the key is taken and nothing has happened yet: whoever has lost the directive by then leaves it to the others. */
    private readonly isHeld: () => Promise<boolean>,
  ) {}

  async begin(): Promise<void> {
    if (!(await this.isHeld())) throw CallFailure.of('aborted', 'Somebody else performs the directive by now.');
    this.hasBegun = true;
  }

  /** What a failed effect means. Of an exception that says nothing of itself nobody knows what happened before it. */
  read(error: unknown, { directive }: Pick<Tool, 'directive'>): ToolFailure {
    const failure = failureOf(error);
    const isDoubtful = failure.code === 'execution_failed' && !isAnswer(error instanceof CallFailure ? error.cause : error);
    const mayRepeat = directive?.maybeRan === 'repeat' || !(isDoubtful || failure.code === 'unknown_outcome');
    this.retryAfterMs = mayRepeat ? askedWait(error) : undefined;
    return isDoubtful ? { ...failure, code: 'unknown_outcome', safeMessage: UNKNOWN } : failure;
  }
}

const UNKNOWN = 'The effect failed half-way, and it is unknown whether it took place. Check before you request it again.';

/** What the tool, or whom it asked, said on purpose: then the effect did not take place. A 5xx may come from half-way, but for 503, which turns away. */
function isAnswer(thrown: unknown): boolean {
  if (thrown instanceof ToolError) return true;
  return thrown instanceof HttpException && (thrown.getStatus() < 500 || thrown.getStatus() === 503);
}
