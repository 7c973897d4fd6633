/**
 * Thrown by a store for what it was given: the same would be refused again. Any other error of a
 * store is a failure of its own, and says nothing of what was asked of it: the call is not made, a
 * durable run is handed over, and another ends with `storage_unavailable`.
 */
export class StoreRefusalError extends Error {
  override readonly name: string = 'StoreRefusalError';
}
