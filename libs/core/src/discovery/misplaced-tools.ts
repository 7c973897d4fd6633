import type { Type } from '@nestjs/common';
import { LLM_TOOL_METADATA } from '../decorators/llm-tool.decorator.js';
import type { Finding } from '../protocol/errors.js';
import { isObject } from '../protocol/object.guards.js';

/** Every `@LlmTool()` of a class that nothing would ever read: on a static method, on one named by a symbol, on a getter or a setter. */
export function misplacedFindings(type: Type): Finding[] {
  const prototype: unknown = type.prototype;
  return [...staticFindings(type), ...(isObject(prototype) ? memberFindings(type, prototype) : [])];
}

function staticFindings(type: Type): Finding[] {
  return decoratedKeysOf(type, Function.prototype).map(({ key }) => ({
    at: `${type.name}.${String(key)}`,
    problem: 'It is static, and tools are methods of an instance.',
    remedy: 'Remove `static`.',
  }));
}

function memberFindings(type: Type, prototype: object): Finding[] {
  return decoratedKeysOf(prototype, Object.prototype).flatMap(({ key, level }) => {
    const at = `${type.name}.${String(key)}`;
    if (typeof key === 'symbol')
      return [{ at, problem: 'It is named by a symbol, which no model can call.', remedy: 'Give the method a name that is text.' }];
    const isMethod = typeof Reflect.getOwnPropertyDescriptor(level, key)?.value === 'function';
    return isMethod ? [] : [{ at, problem: 'It is not a method.', remedy: 'Make it a method, or remove @LlmTool().' }];
  });
}

/** Own keys that carry the decorator, of an object and of those it inherits from, up to `end`. */
function decoratedKeysOf(start: object, end: object): { readonly key: string | symbol; readonly level: object }[] {
  const found: { readonly key: string | symbol; readonly level: object }[] = [];
  for (let level: object | null = start; level && level !== end; level = Reflect.getPrototypeOf(level)) {
    for (const key of Reflect.ownKeys(level)) if (Reflect.hasOwnMetadata(LLM_TOOL_METADATA, level, key)) found.push({ key, level });
  }
  return found;
}
