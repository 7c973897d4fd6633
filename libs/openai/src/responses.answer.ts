import { ModelError, type ModelFinishReason, type Usage } from '@toolloop/core';
import { isWireObject, WireAnswer, type WireObject, wireObjectsIn } from '@toolloop/wire';
import { fromIncompleteReason } from './from-finish-reason.js';
import { fromErrorPayload, fromProviderError } from './from-provider-error.js';
import { fromResponsesUsage } from './from-responses-usage.js';
import { outputToKeep, type ProviderData } from './provider-data.js';
import { ResponsesOutput, type FinishedOutput } from './responses.output.js';
import { WHERE_TO_LOOK } from './where-to-look.js';

/** They announce, or repeat, what other events say; the first three carry the whole request with every tool in it. */
const REDUNDANT: ReadonlySet<string> = new Set(
  (
    'created in_progress queued content_part.added content_part.done output_text.done output_text.annotation.added refusal.done ' +
    'reasoning_text.done reasoning_summary_part.added reasoning_summary_part.done reasoning_summary_text.done'
  )
    .split(' ')
    .map((name) => `response.${name}`),
);

/** An answer to `POST /responses`. Events that are not known say nothing. */
export class ResponsesAnswer extends WireAnswer {
  override readonly kind = 'response';
  override readonly whereToLook = WHERE_TO_LOOK;
  override readonly redundant = REDUNDANT;
  private readonly output = new ResponsesOutput(this.batch);
  private usage: Usage | undefined;
  /** Set by the event that says how the answer ended. */
  private end: { readonly status: unknown; readonly reason: unknown } | undefined;

  constructor(private readonly model: string) {
    super();
  }

  /** Its status, with the reason where it is incomplete: `completed`, `incomplete:max_output_tokens`. */
  override get providerReason(): string | undefined {
    const { status, reason } = this.end ?? {};
    if (typeof status !== 'string') return undefined;
    return typeof reason === 'string' ? `${status}:${reason}` : status;
  }

  override get hasEnded(): boolean {
    return this.end !== undefined;
  }

  override toFailure(payload: string): ModelError {
    return fromErrorPayload(payload);
  }

  override takeChunk(event: WireObject): void {
    switch (event.type) {
      case 'response.completed':
        this.takeEnd(event.response);
        return;
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        // The event has said how it ended, whatever the response in it says.
        this.takeEnd(event.response, event.type.slice('response.'.length));
        return;
      case 'error':
        this.fail(fromProviderError(event.error ?? event));
        return;
      case undefined:
        if (isError(event.error)) this.fail(fromProviderError(event.error));
        return;
      default:
        this.output.take(event);
    }
  }

  override recognises(body: WireObject): boolean {
    return 'output' in body || body.type === 'error' || isError(body.error);
  }

  /** The response in full, as the last event repeats it. */
  override takeWhole(response: WireObject): void {
    const { status, error, incomplete_details: details } = response;
    if (status === 'failed' || response.type === 'error' || isError(error)) {
      this.fail(fromProviderError(error ?? (response.type === 'error' ? response : {})));
      return;
    }
    for (const [index, item] of wireObjectsIn(response.output).entries()) this.output.takeMissing(index, item);
    this.usage = fromResponsesUsage(response.usage);
    this.end = { status, reason: isWireObject(details) ? details.reason : undefined };
  }

  /** Without its response, an end is an end still. */
  private takeEnd(response: unknown, status?: string): void {
    this.takeWhole({ ...(isWireObject(response) && response), ...(status !== undefined && { status }) });
  }

  override finish(): void {
    const output = this.output.finish();
    const { items, calls, refusal, hasNameless } = output;
    const reason = this.reasonFor(output);
    if (hasNameless && (reason === 'stop' || reason === 'tool_calls')) {
      this.fail(new ModelError('The provider sent a tool call without a name.', { retryable: true }));
      return;
    }
    for (const { toolCallId, name, arguments: text } of calls) this.batch.push({ type: 'tool-call', toolCallId, name, arguments: text });
    if (this.usage !== undefined) this.batch.push({ type: 'usage', usage: this.usage });
    const kept = outputToKeep(items);
    const data: ProviderData = { model: this.model, ...(refusal !== '' && { refusal }), ...(kept && { output: kept }) };
    this.batch.push({ type: 'finish', finishReason: reason, ...((refusal !== '' || kept) && { providerData: { openai: data } }) });
  }

  private reasonFor({ calls, refusal, hasBare }: FinishedOutput): ModelFinishReason {
    if (this.end === undefined || this.hasLost) return 'incomplete';
    const { status, reason } = this.end;
    if (status === 'incomplete') return fromIncompleteReason(reason);
    if (status === 'cancelled' || status === 'in_progress' || status === 'queued') return 'incomplete';
    if (calls.length > 0) return hasBare ? 'incomplete' : 'tool_calls';
    return refusal === '' ? 'stop' : 'content_filter';
  }
}

/** A response in order says `error: null`. */
function isError(error: unknown): boolean {
  return error !== undefined && error !== null;
}
