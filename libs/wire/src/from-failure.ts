import { ModelError } from '@toolloop/core';
import { isWireObject } from './wire-object.js';

/** An error page can be megabytes of HTML, and a message that quotes what it refuses as long as the request. */
const MESSAGE_CHARACTERS = 500;

/** A request that got no answer. Fetch says no more than "fetch failed"; what failed is in the cause of the cause. */
export function unreachable(error: Error, message = rootOf(error)): ModelError {
  return new ModelError(`The provider could not be reached: ${message}`, { retryable: true, cause: error.cause });
}

/** A connection that broke while the answer was being read. */
export function fromReadError(error: unknown): ModelError {
  return new ModelError(`The connection broke in the middle of an answer: ${rootOf(error)}`, { retryable: true, cause: error });
}

/** The error without the key in its text: a provider may echo what it was sent, and errors end up in logs. */
export function withoutKey(error: ModelError, apiKey = ''): ModelError {
  if (apiKey === '' || !error.message.includes(apiKey)) return error;
  return new ModelError(error.message.replaceAll(apiKey, '[api key]'), error.options);
}

/** Whether the same request may succeed a little later, by the status of the answer it got. */
export function isRetryable(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** A message of a length that a log can bear. */
export function cut(message: string): string {
  return message.length > MESSAGE_CHARACTERS ? `${message.slice(0, MESSAGE_CHARACTERS)}…` : message;
}

/** What is at the bottom of a chain of causes, e.g. `connect ECONNREFUSED 127.0.0.1:443`. */
function rootOf(error: unknown): string {
  const { cause, message, code } = isWireObject(error) ? error : { message: error };
  if (isWireObject(cause)) return rootOf(cause);
  return String(message === '' ? code : message);
}
