import { HttpException } from '@nestjs/common';
import { ToolError, type ToolFailure } from '@toolloop/protocol';
import { CallFailure, causeOf, failureOf } from '../../call/call-failure.js';
import type { EffectAttempt } from '../../call/outcome.js';
import { askedWait } from '../../call/retry-delay.js';
import type { Tool } from '../../contracts/tool.js';

/** One attempt to have the effect of a directive, shared by the pipeline and its caller. */
export class DirectiveAttempt implements EffectAttempt {
  /** True once the key of the effect was taken for this attempt. */
  hasBegun = false;
  /**
   * The least milliseconds before another attempt; undefined if that would fail as well, or the
   * outcome is unknown.
   */
  retryAfterMs: number | undefined;
  private wasRefused = false;

  constructor(
    /** The idempotency key of the effect. */
    readonly idempotencyKey: string,
    /**
     * Asked when the key is taken and nothing has happened yet: a process that has lost the
     * directive by then leaves it to others.
     */
    private readonly isHeld: () => Promise<boolean>,
  ) {}

  async begin(): Promise<void> {
    if (!(await this.isHeld()))
      throw CallFailure.of('aborted', 'Another process performs the directive by now.');
    this.hasBegun = true;
  }

  mayRepeat({ directive }: Pick<Tool, 'directive'>): boolean {
    return directive?.maybeRan === 'repeat';
  }

  /** Returns whether the attempt may have had the effect: a method that was not called had none. */
  get mayHaveEffect(): boolean {
    return this.hasBegun && !this.wasRefused;
  }

  /**
   * Returns the meaning of a failed effect. After an unknown exception it is unknown what happened
   * before. A method that is still in flight is not called beside itself, unless this process stops
   * (`signal`).
   */
  read(error: unknown, tool: Pick<Tool, 'directive'>, signal: AbortSignal): ToolFailure {
    const failure = failureOf(error);
    const method = error instanceof CallFailure ? error.method : undefined;
    this.wasRefused = method === 'not_called';
    const isDoubtful = !this.wasRefused && isUnexplained(failure, error);
    const told: ToolFailure = isDoubtful
      ? { ...failure, code: 'unknown_outcome', safeMessage: UNKNOWN }
      : failure;
    const isRunning = method === 'in_flight' && !signal.aborted;
    const mayRepeat = told.code !== 'unknown_outcome' || (this.mayRepeat(tool) && !isRunning);
    this.retryAfterMs = mayRepeat ? askedWait(error) : undefined;
    return told;
  }
}

function isUnexplained({ code }: ToolFailure, error: unknown): boolean {
  return code === 'execution_failed' && !isAnswer(causeOf(error));
}

const UNKNOWN =
  'The effect failed half-way, and it is unknown whether it took place. Check before you request it again.';

/**
 * Returns whether the tool, or a system that it called, refused on purpose: then the effect did not
 * take place. A 5xx may come from half-way, but for 503, which refuses.
 */
function isAnswer(thrown: unknown): boolean {
  if (thrown instanceof ToolError) return true;
  return (
    thrown instanceof HttpException && (thrown.getStatus() < 500 || thrown.getStatus() === 503)
  );
}
