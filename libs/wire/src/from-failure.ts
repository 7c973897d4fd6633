import { ModelError } from '@toolloop/protocol';
import { isWireObject } from './wire-object.js';

/**
 * Makes the error of a request without an answer. Fetch says no more than "fetch failed"; the
 * reason is in the cause of the cause.
 */
export function unreachable(error: Error, message = rootMessage(error)): ModelError {
  if (error.cause instanceof ModelError) return error.cause; // a test that may ask no provider
  return new ModelError(`The provider could not be reached: ${message}`, {
    code: 'unreachable',
    retryable: true,
    cause: error.cause,
  });
}

/** Makes the error of a connection that broke while the answer was being read. */
export function fromReadError(error: unknown): ModelError {
  return new ModelError(`The connection broke in the middle of an answer: ${rootMessage(error)}`, {
    code: 'connection_lost',
    retryable: true,
    cause: error,
  });
}

/**
 * Finds the message at the bottom of a chain of causes, e.g. `connect ECONNREFUSED 127.0.0.1:443`.
 */
function rootMessage(error: unknown): string {
  const { cause, message, code } = isWireObject(error) ? error : { message: error };
  if (isWireObject(cause)) return rootMessage(cause);
  return String(message === '' ? code : message);
}
