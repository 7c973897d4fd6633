import type { ModelError, ModelEvent } from '@toolloop/core';
import type { WireObject } from './wire-object.js';

/** One answer in the making, in the words of one API: payloads in, events out. */
export interface WireAnswer {
  /** What an answer of this API is called, for error messages. */
  readonly kind: string;
  /** Names of events whose payloads say nothing that others do not say: they are not even parsed. */
  readonly redundant: ReadonlySet<string>;
  /** The first failure; it ends the answer. */
  readonly failure: ModelError | undefined;
  /** Whether the answer has said that it is over. */
  readonly hasEnded: boolean;
  /** What was said before is still handed out. */
  fail(error: ModelError): void;
  /** A payload that could not be read: whatever comes after, the answer is not whole. */
  lose(): void;
  /** A payload of an event stream. */
  takeChunk(chunk: WireObject): void;
  /** Whether a JSON body is an answer, or an error instead of one. */
  recognises(body: WireObject): boolean;
  /** A whole answer, from a server that does not stream. */
  takeWhole(body: WireObject): void;
  /** Nothing more will come. Called once, unless the answer failed. */
  finish(): void;
  takeEvents(): ModelEvent[];
}
