import type { ModelError, ModelEvent } from '@toolloop/core';
import type { WireObject } from './wire-object.js';

/** One answer in the making, in the words of one API: payloads in, events out. */
export interface WireAnswer {
  /** What an answer of this API is called, for error messages. */
  readonly kind: string;
  /** What may be wrong where the server answers with something else, for error messages. */
  readonly whereToLook: string;
  /** Names of events whose payloads say nothing that others do not say: they are not even parsed. */
  readonly redundant: ReadonlySet<string>;
  /** The first failure; it ends the answer. */
  readonly failure: ModelError | undefined;
  /** Whether the answer has said that it is over. */
  readonly hasEnded: boolean;
  /** Whether the provider waits to be asked to go on: what comes then is part of the same answer. */
  readonly isPaused: boolean;
  /** What was said before is still handed out. */
  fail(error: ModelError): void;
  /** The failure an `event: error` tells of, whose payload need not be JSON where a proxy wrote it. */
  toFailure(payload: string): ModelError;
  /** A payload that could not be read: whatever comes after, the answer is not whole. */
  lose(): void;
  /** A payload of an event stream. */
  takeChunk(chunk: WireObject): void;
  /** Whether a JSON body is an answer, or an error instead of one. */
  recognises(body: WireObject): boolean;
  /** A whole answer, from a server that does not stream. */
  takeWhole(body: WireObject): void;
  /** Nothing more will come, or nothing before the provider is asked to go on. Called once for each body, unless the answer failed. */
  finish(): void;
  takeEvents(): ModelEvent[];
}
