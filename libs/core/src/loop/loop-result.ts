import type { JsonValue, LoopResult, Message, MessageLabels } from '@toolloop/protocol';
import { toJson } from '../schema/canonical-json.js';
import type { Finish, LoopState } from './loop-state.js';

/** A run's result as the application gets it. `messages` is behind a getter, so that no serializer finds it. */
export class FinishedRun<Output> implements LoopResult<Output> {
  readonly text: string;
  readonly citations?: NonNullable<LoopResult['citations']>;
  readonly finishReason: LoopResult['finishReason'];
  readonly steps: number;
  readonly toolCalls: LoopResult['toolCalls'];
  readonly injectedTools: LoopResult['injectedTools'];
  readonly usage: LoopResult['usage'];
  readonly error?: NonNullable<LoopResult['error']>;
  readonly finishDetail?: string;
  readonly #messages: readonly Message[];
  readonly #json: JsonValue | undefined;
  readonly #read: MessageLabels;

  constructor(
    readonly runId: string,
    state: LoopState,
    readonly output?: Output,
  ) {
    this.text = state.text;
    if (state.citations.length > 0) this.citations = state.citations;
    const { reason, error, detail }: Finish = state.finish ?? { reason: 'error' };
    this.finishReason = reason;
    this.steps = state.step;
    this.toolCalls = recordsOf(state);
    this.injectedTools = state.toolset.injected;
    this.usage = state.usage;
    if (error) this.error = error;
    if (detail !== undefined) this.finishDetail = detail;
    this.#messages = state.messages;
    this.#json = state.output?.json;
    this.#read = state.read ?? { returns: 'untrusted', reads: 'private' };
  }

  /** The answer as JSON, where one was asked for and given. */
  get outputJson(): JsonValue | undefined {
    return this.#json;
  }

  /** What all that its model has read is worth. */
  get read(): MessageLabels {
    return this.#read;
  }

  get messages(): readonly Message[] {
    return this.#messages;
  }

  toJSON(): JsonValue {
    const { runId, text, citations, finishReason, steps, toolCalls, usage, error, finishDetail } = this;
    return toJson({
      runId,
      output: this.#json,
      text,
      citations,
      finishReason,
      steps,
      toolCalls,
      injectedTools: this.injectedTools.map(({ id }) => id),
      usage,
      error,
      finishDetail,
    });
  }
}

/** Those of a step that waits are no part of the state yet. */
function recordsOf({ records, pending }: LoopState): LoopResult['toolCalls'] {
  return pending ? [...records, ...pending.outcomes.map(({ record }) => record)] : records;
}
