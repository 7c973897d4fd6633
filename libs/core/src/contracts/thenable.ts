/**
 * Tells whether a value is a promise of any kind. One of a library, or of another realm, is no
 * `Promise`.
 */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'then' in value &&
    typeof value.then === 'function'
  );
}
