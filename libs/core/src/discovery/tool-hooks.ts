import type { Type } from '@nestjs/common';
import type { Finding, ToolEffect } from '@toolloop/protocol';
import type { RunContext, ToolCallContext } from '../contracts/tool-call.js';
import { isRefusal, type PerformedDirective, type ToolWord } from '../contracts/tool.js';
import type { RawTool, RawToolDeclaration } from '../decorators/raw-tool.js';
import { methodNamesOf, type ToolMethod } from '../decorators/tool-metadata.js';
import { nearestName } from '../findings/options.js';
import { callMethod } from '../schema/tool-input.js';
import { handlerOf } from './nest-layers.js';

/** Finds what a tool is called on, for a run. */
export type ToolTarget = (run: RunContext) => object | Promise<object>;

/** The hooks of a tool before its calls. */
export interface ToolHooks {
  readonly canCall?: (target: ToolTarget, run: RunContext) => ToolWord | Promise<ToolWord>;
  readonly preflight?: (
    target: ToolTarget,
    input: unknown,
    context: ToolCallContext,
  ) => ToolWord | Promise<ToolWord>;
  readonly preview?: (target: ToolTarget, input: unknown, context: ToolCallContext) => unknown;
  /** Undoes what a directive of the tool did. */
  readonly compensate?: (
    target: ToolTarget,
    input: unknown,
    performed: PerformedDirective,
    context: ToolCallContext,
  ) => unknown;
}

/** The hooks of a tool that has no target. */
export type OwnHooks = Pick<RawToolDeclaration, 'canCall' | 'preflight' | 'preview'> & {
  readonly compensate?: RawCompensation | undefined;
};

type RawCompensation = NonNullable<NonNullable<RawToolDeclaration['directive']>['compensate']>;

/**
 * The hooks of a decorated method, which are methods beside it, looked up by name when they are
 * asked.
 */
export function methodHooks({ options }: ToolMethod): ToolHooks {
  const { canCall, preflight, preview, directive } = options ?? {};
  const compensate = directive?.compensate;
  const { canCall: own } = ownHooks(typeof canCall === 'function' ? { canCall } : {});
  return {
    ...(own && { canCall: own }),
    ...(typeof canCall === 'string' && {
      canCall: async (target, run) => toWord(await callMethod(await target(run), canCall, [run])),
    }),
    ...(preflight !== undefined && {
      preflight: async (target, input, context) =>
        toWord(await callMethod(await target(context), preflight, [input, context])),
    }),
    ...(preview !== undefined && {
      preview: async (target, input, context) =>
        callMethod(await target(context), preview, [input, context]),
    }),
    ...(compensate !== undefined && {
      compensate: async (target, input, performed, context) =>
        callMethod(await target(context), compensate, [input, performed, context]),
    }),
  };
}

/** A method may answer anything. */
function toWord(answer: unknown): ToolWord {
  return isRefusal(answer) ? answer : answer === true;
}

export function ownHooks({ canCall, preflight, preview, compensate }: OwnHooks): ToolHooks {
  return {
    ...(canCall && { canCall: (_target, run) => canCall(run) }),
    ...(preflight && { preflight: (_target, input, context) => preflight(input, context) }),
    ...(preview && { preview: (_target, input, context) => preview(input, context) }),
    ...(compensate && {
      compensate: (_target, input, performed, context) => compensate(input, performed, context),
    }),
  };
}

/** Returns the names of the methods that are called for a tool: its own, and those of its hooks. */
export function methodsAskedOf({ property, options }: ToolMethod): readonly string[] {
  const { canCall, preflight, preview, directive } = options ?? {};
  return [property, canCall, preflight, preview, directive?.compensate].filter(
    (name) => typeof name === 'string',
  );
}

/** Hooks that name no method of the class. */
export function methodHookFindings(at: string, type: Type, { options }: ToolMethod): Finding[] {
  const { canCall, preflight, preview, directive } = options ?? {};
  return [
    ...namedFindings(at, type, 'compensate', directive?.compensate),
    ...namedFindings(at, type, 'canCall', canCall),
    ...namedFindings(at, type, 'preflight', preflight),
    ...namedFindings(at, type, 'preview', preview),
  ];
}

/** A name that is no text is a finding of the table. */
function namedFindings(at: string, type: Type, option: string, name: unknown): Finding[] {
  if (typeof name !== 'string') return [];
  const methods = methodNamesOf(type).filter((one) => handlerOf(type, one));
  if (methods.includes(name)) return [];
  return [
    {
      at,
      problem: `Its ${option} names "${name}", and ${type.name} has no such method.`,
      remedy: nearestName(name, methods),
    },
  ];
}

/**
 * A function that may ask while it runs, and the place of the call's context among its parameters.
 */
interface AskingCode {
  readonly code: unknown;
  readonly contextIndex: number | undefined;
}

/** The code of a decorated method. */
export function codeOfMethod(type: Type, { property, parameters }: ToolMethod): AskingCode {
  return {
    code: handlerOf(type, property),
    contextIndex: parameters.find(({ kind }) => kind === 'context')?.index,
  };
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
