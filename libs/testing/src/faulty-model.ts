import { LanguageModel, ModelError } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';

/**
 * A model with faults: the nth question has the nth fault of the plan, and none where the plan has
 * undefined or has ended.
 *
 * @example
 * const model = new FaultyModel(new ScriptedModel([text('Hello'), text('Hello')]), [
 *   { kind: 'refuse', retryAfterMs: 1 },
 * ]);
 */
export class FaultyModel extends LanguageModel {
  override readonly provider: string;
  override readonly modelId: string;
  override readonly capabilities;
  private asked = 0;

  constructor(
    private readonly model: LanguageModel,
    private readonly plan: readonly (ModelFault | undefined)[],
  ) {
    super();
    this.provider = model.provider;
    this.modelId = model.modelId;
    this.capabilities = model.capabilities;
  }

  /** The number of questions so far. */
  get questions(): number {
    return this.asked;
  }

  /** @throws {ModelError} Where the plan has it. */
  async *stream(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    const fault = this.plan[this.asked];
    this.asked += 1;
    if (fault?.kind === 'refuse') throw refusal(fault);
    const answer = this.model.stream(request, signal);
    if (!fault) yield* answer;
    else yield* fault.kind === 'half-call' ? untilHalfCall(answer) : firstOf(answer, fault.after);
    if (fault?.kind === 'drop')
      throw new ModelError('The connection broke.', { code: 'connection_lost', retryable: true });
    if (fault?.kind === 'stall') await untilAborted(signal);
  }
}

/** A fault of a provider, instead of a whole answer. */
export type ModelFault =
  /** The connection breaks after so many events of the answer. */
  | { readonly kind: 'drop'; readonly after: number }
  /** The stream ends after so many events, without saying why. */
  | { readonly kind: 'cut'; readonly after: number }
  /** The provider falls silent after so many events, until the question is aborted. */
  | { readonly kind: 'stall'; readonly after: number }
  /** The arguments of the first call end in the middle, and the answer with them. */
  | { readonly kind: 'half-call' }
  /** The provider refuses the question: 429 unless `status` says otherwise. */
  | { readonly kind: 'refuse'; readonly status?: number; readonly retryAfterMs?: number };

function refusal({
  status = 429,
  retryAfterMs,
}: Extract<ModelFault, { kind: 'refuse' }>): ModelError {
  return new ModelError(`The provider answered ${status}.`, {
    status,
    retryable: status === 429 || status >= 500,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

async function* firstOf(
  answer: AsyncIterable<ModelEvent>,
  count: number,
): AsyncGenerator<ModelEvent, void, undefined> {
  let left = count;
  if (left === 0) return;
  for await (const event of answer) {
    yield event;
    left -= 1;
    if (left === 0) return;
  }
}

async function* untilHalfCall(
  answer: AsyncIterable<ModelEvent>,
): AsyncGenerator<ModelEvent, void, undefined> {
  for await (const event of answer) {
    if (event.type === 'tool-call-delta') {
      const { argumentsDelta } = event;
      return yield {
        ...event,
        argumentsDelta: argumentsDelta.slice(0, Math.ceil(argumentsDelta.length / 2)),
      };
    }
    if (event.type === 'tool-call' || event.type === 'finish') return;
    yield event;
  }
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
