import { HttpException } from '@nestjs/common';
import { ToolError, type ToolFailure } from '@toolloop/protocol';
import type { Tool } from '../contracts/tool.js';
import { askedWait, CallFailure, causeOf, failureOf } from './call-failure.js';

/** One attempt to have the effect of a directive, as the pipeline and whoever makes the attempt share it. */
export class DirectiveAttempt {
  /** Whether the key of the effect was taken for this attempt. */
  hasBegun = false;
  /** Milliseconds to wait at least before another attempt; undefined where that would fail as well, or nobody knows. */
  retryAfterMs: number | undefined;
  private wasRefused = false;

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

  /** Whether the attempt may have had the effect: a method that was not called had none. */
  get mayHaveEffect(): boolean {
    return this.hasBegun && !this.wasRefused;
  }

  /**
   * What a failed effect means. Of an exception that says nothing of itself nobody knows what happened before it. A method that is still in flight is not called beside
   * itself, unless this process stops (`signal`).
   */
  read(error: unknown, { directive }: Pick<Tool, 'directive'>, signal: AbortSignal): ToolFailure {
    const failure = failureOf(error);
    const method = error instanceof CallFailure ? error.method : undefined;
    this.wasRefused = method === 'not_called';
    const isDoubtful = !this.wasRefused && isUnexplained(failure, error);
    const told: ToolFailure = isDoubtful ? { ...failure, code: 'unknown_outcome', safeMessage: UNKNOWN } : failure;
    const isRunning = method === 'in_flight' && !signal.aborted;
    const mayRepeat = told.code !== 'unknown_outcome' || (directive?.maybeRan === 'repeat' && !isRunning);
    this.retryAfterMs = mayRepeat ? askedWait(error) : undefined;
    return told;
  }
}

function isUnexplained({ code }: ToolFailure, error: unknown): boolean {
  return code === 'execution_failed' && !isAnswer(causeOf(error));
}

const UNKNOWN = 'The effect failed half-way, and it is unknown whether it took place. Check before you request it again.';

/** What the tool, or whom it asked, said on purpose: then the effect did not take place. A 5xx may come from half-way, but for 503, which turns away. */
function isAnswer(thrown: unknown): boolean {
  if (thrown instanceof ToolError) return true;
  return thrown instanceof HttpException && (thrown.getStatus() < 500 || thrown.getStatus() === 503);
}
