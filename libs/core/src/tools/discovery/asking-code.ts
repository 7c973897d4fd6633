import type { Type } from '@nestjs/common';
import type { Finding, ToolEffect } from '@toolloop/protocol';
import type { RawTool } from '../decorators/raw-tool.js';
import type { ToolMethod } from '../decorators/tool-metadata.js';
import { handlerOf } from '../nest/enhancers.js';

/** The code of a decorated method. */
export function codeOfMethod(type: Type, { property, parameters }: ToolMethod): AskingCode {
  return {
    code: handlerOf(type, property),
    contextIndex: parameters.find(({ kind }) => kind === 'context')?.index,
  };
}

/**
 * A function that may ask while it runs, and the place of the call's context among its parameters.
 */
interface AskingCode {
  readonly code: unknown;
  readonly contextIndex: number | undefined;
}

/** The code of a raw tool, which is a function, or the method `call` of a class. */
export function codeOfRaw({ type, source }: RawTool): AskingCode {
  return {
    code: type ? handlerOf(type, 'call') : source && Reflect.get(source, 'execute'),
    contextIndex: 1,
  };
}

/**
 * Finds that a tool which changes things asks in its method, as far as its source text tells: a
 * name that is no parameter of its own is not looked at.
 */
export function askFindings(
  at: string,
  effect: ToolEffect | undefined,
  code: AskingCode,
): Finding[] {
  if (effect === undefined || effect === 'read_only' || !asksInside(code)) return [];
  return [
    {
      at,
      problem:
        'It changes things, and its method asks a person while it runs: it would have to be called a second time.',
      remedy:
        'Declare `questions: (input) => [{ key, question, schema }]`. They are asked before the call, and the answers are its arguments.',
    },
  ];
}

function asksInside({ code, contextIndex = -1 }: AskingCode): boolean {
  if (typeof code !== 'function') return false;
  const source = Function.prototype.toString.call(code).replaceAll(NOT_CODE, "''");
  const parameter = parametersIn(source)[contextIndex]?.trim() ?? '';
  const [name] = /^[\w$]+/.exec(parameter) ?? [];
  if (name === undefined) return /^\{(?:.*,)?\s*ask\s*[,:}]/s.test(parameter);
  return new RegExp(
    String.raw`(?<![\w$.])${name.replaceAll('$', String.raw`\$`)}\s*\??\.\s*ask\b`,
  ).test(source);
}

/** Comments and texts. */
const NOT_CODE = /\/\*.*?\*\/|\/\/[^\n]*|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/gs;

/** Returns the parameters of a function, as they are written. */
function parametersIn(source: string): readonly string[] {
  const parameters = [''];
  let depth = 0;
  for (const character of source.slice(source.indexOf('('))) {
    if ('([{'.includes(character)) depth += 1;
    if (')]}'.includes(character)) depth -= 1;
    if (depth === 0) break;
    if (character === ',' && depth === 1) parameters.push('');
    else if (depth > 1 || character !== '(') parameters.push((parameters.pop() ?? '') + character);
  }
  return parameters;
}
