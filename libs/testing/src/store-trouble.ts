/** A fault of a store at one call of one of its methods. */
export interface StoreTrouble {
  readonly method: string;
  /** From 1, among the calls while it may be in trouble. @default every call */
  readonly at?: number;
  /** Tells whether it may be in trouble now. @default always */
  readonly when?: () => boolean;
  /**
   * The end of the call: a rejection, or a promise that never settles. @default a store that hangs
   */
  readonly answer?: () => Promise<never>;
  /**
   * True where the store does what it is asked before it fails, as one whose connection is lost on
   * the way back. @default false
   */
  readonly isDone?: boolean;
}

const HANG = (): Promise<never> => new Promise<never>(() => undefined);

/**
 * A store, or any other adapter, that is as it was but for some calls.
 *
 * @example
 * const pending = troubled(new MemoryPendingStore(), {
 *   method: 'add',
 *   answer: () => Promise.reject(new StorageUnavailableError()),
 * });
 */
export function troubled<Store extends object>(
  store: Store,
  { method, at, when = () => true, answer = HANG, isDone = false }: StoreTrouble,
): Store {
  let calls = 0;
  return new Proxy(store, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      return (...given: readonly unknown[]): unknown => {
        const isMeant = property === method && when();
        if (isMeant) calls += 1;
        const isTroubled = isMeant && (at === undefined || calls === at);
        if (!isTroubled) return Reflect.apply(value, target, given);
        return isDone
          ? Promise.resolve(Reflect.apply(value, target, given)).then(answer)
          : answer();
      };
    },
  });
}
