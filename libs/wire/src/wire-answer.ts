import type { ModelError, ModelEvent } from '@toolloop/core';
import { EventBatch } from './event-batch.js';
import type { WireObject } from './wire-object.js';

const NONE: ReadonlySet<string> = new Set();

/** One answer in the making, in the words of one API: payloads in, events out. */
export abstract class WireAnswer {
  /** What an answer of this API is called, for error messages. */
  abstract readonly kind: string;
  /** What may be wrong where the server answers with something else, for error messages. */
  abstract readonly whereToLook: string;
  /** Names of events whose payloads say nothing that others do not say: they are not even parsed. */
  readonly redundant: ReadonlySet<string> = NONE;
  protected readonly batch = new EventBatch();
  protected hasLost = false;
  private error: ModelError | undefined;

  /** The first failure; it ends the answer. */
  get failure(): ModelError | undefined {
    return this.error;
  }

  /** The provider's own word for how the answer ended, such as `end_turn`. */
  get providerReason(): string | undefined {
    return undefined;
  }

  /** Whether the answer has said that it is over. */
  abstract get hasEnded(): boolean;

  /** Whether the provider waits to be asked to go on: what comes then is part of the same answer. */
  get isPaused(): boolean {
    return false;
  }

  /** What was said before is still handed out. */
  fail(error: ModelError): void {
    this.error ??= error;
  }

  /** A payload that could not be read: whatever comes after, the answer is not whole. */
  lose(): void {
    this.hasLost = true;
  }

  takeEvents(): ModelEvent[] {
    return this.batch.take();
  }

  /** The failure an `event: error` tells of, whose payload need not be JSON where a proxy wrote it. */
  abstract toFailure(payload: string): ModelError;
  /** A payload of an event stream. */
  abstract takeChunk(chunk: WireObject): void;
  /** Whether a JSON body is an answer, or an error instead of one. */
  abstract recognises(body: WireObject): boolean;
  /** A whole answer, from a server that does not stream. */
  abstract takeWhole(body: WireObject): void;
  /** Nothing more will come, or nothing before the provider is asked to go on. Called once for each body, unless the answer failed. */
  abstract finish(): void;
}
