import type { Type } from '@nestjs/common';
import type { Finding } from '@toolloop/protocol';
import type { RunContext, ToolCallContext } from '../../contracts/tool-call.js';
import { isRefusal, type PerformedDirective, type ToolWord } from '../../contracts/tool.js';
import { nearestName } from '../../findings/nearest-name.js';
import { callMethod } from '../../schema/call-arguments.js';
import type { RawToolDeclaration } from '../decorators/raw-tool.js';
import { methodNamesOf, type ToolMethod } from '../decorators/tool-metadata.js';
import { handlerOf } from '../nest/enhancers.js';

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

/** Finds what a tool is called on, for a run. */
export type ToolTarget = (run: RunContext) => object | Promise<object>;

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
