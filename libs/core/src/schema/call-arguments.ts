import type { ToolCallContext } from '../contracts/tool-call.js';
import type { ToolMethod } from '../tools/decorators/tool-metadata.js';
import type { ToolParameter } from '../tools/decorators/tool-parameters.decorator.js';

/**
 * Returns the positional arguments for the method: the instance, the named values, the context.
 * Gaps, and arguments that the model left out, are undefined.
 */
export function argumentsOf(
  method: ToolMethod,
  built: unknown,
  context: ToolCallContext,
): unknown[] {
  const list: unknown[] = [];
  for (const parameter of method.parameters) {
    while (list.length < parameter.index) list.push(undefined);
    list[parameter.index] = valueFor(parameter, built, context);
  }
  return list;
}

/**
 * Calls a method that is looked up when it is called, so that decorators which replace the function
 * are honoured.
 */
export function callMethod(target: object, property: string, args: readonly unknown[]): unknown {
  const found: unknown = Reflect.get(target, property);
  if (typeof found !== 'function')
    throw new TypeError(`${target.constructor.name}.${property} is not a method.`);
  return Reflect.apply(found, target, [...args]);
}

function valueFor(parameter: ToolParameter, built: unknown, context: ToolCallContext): unknown {
  if (parameter.kind === 'input') return built;
  if (parameter.kind === 'context') return context;
  const given = typeof built === 'object' && built !== null && Object.hasOwn(built, parameter.name);
  return given ? Reflect.get(built, parameter.name) : undefined;
}
