/**
 * Asks whether a provider on this host may be asked. @throws {ModelError} In a test that may ask
 * none.
 */
export function assertMayAsk({
  hostname,
}: {
  readonly hostname?: string | null | undefined;
}): void {
  const guard: unknown = Reflect.get(globalThis, GUARD);
  if (typeof guard === 'function') Reflect.apply(guard, undefined, [hostname]);
}

/**
 * The symbol under which `blockRealModels` of `@toolloop/testing` leaves a function that refuses
 * hosts, for all copies of this package.
 */
const GUARD = Symbol.for('@toolloop/before-model-request');
