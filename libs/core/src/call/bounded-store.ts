import { askStore, outsideOfRuns } from './store-calls.js';

/**
 * Returns a store whose methods are called by their rules. A method that is added to a port does
 * not compile until its rule says why repeating it does no harm.
 */
export function boundStore<Port extends object>(store: Port, rules: StoreRules<Port>): Port {
  const methods = new Map<PropertyKey, unknown>(
    Reflect.ownKeys(rules).map((name) => [name, methodBy(store, name, Reflect.get(rules, name))]),
  );
  return new Proxy(store, {
    get: (target, name) => methods.get(name) ?? memberOf(target, name),
  });
}

/**
 * The rule of each method of a port that answers later. `ask` is a call that ends with the run and
 * is repeated after a failure that may pass, so a second call must do no harm; `askOutside` is the
 * same for no run. A function takes the method's place.
 */
type StoreRules<Port> = {
  readonly [
    Name in keyof Port as Port[Name] extends (...args: never[]) => Promise<unknown> ? Name : never
  ]: Port[Name] | 'ask' | 'askOutside';
};

function methodBy(store: object, name: PropertyKey, rule: unknown): unknown {
  if (typeof rule === 'function') return rule;
  const ask = (...args: readonly unknown[]): Promise<unknown> =>
    askStore(() => callMethod(store, name, args));
  return rule === 'ask' ? ask : (...args: readonly unknown[]) => outsideOfRuns(() => ask(...args));
}

function callMethod(store: object, name: PropertyKey, args: readonly unknown[]): Promise<unknown> {
  const method: unknown = Reflect.get(store, name);
  if (typeof method !== 'function')
    throw new TypeError(`${store.constructor.name} has no method "${String(name)}".`);
  return Promise.resolve(Reflect.apply(method, store, args));
}

/** A method that answers at once keeps its own `this`, which may have private fields. */
function memberOf(store: object, name: PropertyKey): unknown {
  const member: unknown = Reflect.get(store, name);
  return typeof member === 'function' ? member.bind(store) : member;
}
