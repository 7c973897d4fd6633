/** Calls a method that is looked up when it is called, so that decorators which replace the function are honoured. */
export function callNamed(target: object, property: string, args: readonly unknown[]): unknown {
  const found: unknown = Reflect.get(target, property);
  if (typeof found !== 'function') throw new TypeError(`${target.constructor.name}.${property} is not a method.`);
  return Reflect.apply(found, target, [...args]);
}
