import { LanguageModel } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/core';
import { ExpectationError } from './expectation.error.js';
import { toRecordedRequest } from './recorded-request.js';
import type { RecordedRequest } from './recorded-request.js';
import type { ScriptedAnswer, ScriptedEnding, ScriptedTurn } from './scripted-answer.js';
import { UnexpectedModelCallError } from './unexpected-model-call.error.js';

/**
 * A model that plays a script, so that a test decides what is answered and reads what was asked. It does not share answers out by run: runs that
 * overlap need a model each, or entries that look at the request.
 */
export class ScriptedModel extends LanguageModel {
  readonly provider = 'scripted';
  readonly modelId: string;
  private readonly asked: RecordedRequest[] = [];
  private failure: unknown;
  private numberedCalls = 0;
  private streaming = 0;

  /** `modelId` is `script` by default. */
  constructor(
    private readonly script: readonly ScriptedTurn[],
    options: { readonly modelId?: string } = {},
  ) {
    super();
    this.modelId = options.modelId ?? 'script';
  }

  /** What the model was asked so far, unexpected calls included. */
  get requests(): readonly RecordedRequest[] {
    return this.asked;
  }

  /** Answers that are being read right now; 0 when every one was read to its end, left or aborted. */
  get openStreams(): number {
    return this.streaming;
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const turn = this.script[this.asked.length];
    this.asked.push(toRecordedRequest(request, signal));
    this.streaming += 1;
    const reading = new AbortController();
    const aborted = untilAborted(signal, reading.signal);
    try {
      const answer = await Promise.race([this.answerOf(turn, request), aborted]);
      if (answer === undefined) return;
      yield* this.eventsOf(answer, signal);
      if (!signal.aborted) await end(answer.ending, aborted);
    } finally {
      this.streaming -= 1;
      reading.abort();
    }
  }

  /**
   * Fails the test when the model was called too often, when a function of the script threw, or when answers are left over. Call it at the end of
   * every test: the loop makes a failed run of such errors. Throws what was thrown then, or an `ExpectationError`.
   */
  assertComplete(): void {
    if (this.failure !== undefined) throw this.failure;
    const left = this.script.slice(this.asked.length);
    if (left.length === 0) return;
    throw new ExpectationError(
      `The model was called ${this.asked.length} times, but its script has ${this.script.length} answers. Left over: ${left.map(titleOf).join('; ')}`,
    );
  }

  private async answerOf(turn: ScriptedTurn | undefined, request: ModelRequest): Promise<ScriptedAnswer> {
    try {
      if (turn === undefined) throw new UnexpectedModelCallError(request, this.script.length);
      return typeof turn === 'function' ? await turn(request) : turn;
    } catch (error) {
      this.failure ??= error;
      throw error;
    }
  }

  private *eventsOf({ events }: ScriptedAnswer, signal: AbortSignal): Generator<ModelEvent, void, undefined> {
    for (const event of events(() => this.nextCallId())) {
      if (signal.aborted) return;
      yield event;
    }
  }

  private nextCallId(): string {
    this.numberedCalls += 1;
    return `call_${this.numberedCalls}`;
  }
}

async function end(ending: ScriptedEnding, aborted: Promise<void>): Promise<void> {
  if (ending.kind === 'hang') await aborted;
  if (ending.kind === 'throw') throw ending.error;
}

/** Resolves when `signal` is aborted; forgets about it when `reading` is. */
function untilAborted(signal: AbortSignal, reading: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true, signal: reading });
  });
}

function titleOf(turn: ScriptedTurn): string {
  return typeof turn === 'function' ? 'a function of the request' : turn.title;
}
