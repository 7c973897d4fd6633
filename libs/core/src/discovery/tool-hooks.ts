import type { Type } from '@nestjs/common';
import type { Finding } from '@toolloop/protocol';
import type { RunContext, ToolCallContext } from '../contracts/tool-call.js';
import type { PerformedDirective } from '../contracts/tool.js';
import type { RawToolDeclaration } from '../decorators/raw-tool.js';
import { methodNamesOf, type ToolMethod } from '../decorators/tool-metadata.js';
import { nearestName } from '../findings/options.js';
import { callMethod } from '../schema/tool-input.js';
import { handlerOf } from './nest-layers.js';

/** Finds what a tool is called on, for a run. */
export type ToolTarget = (run: RunContext) => object | Promise<object>;

/** The hooks of a tool before its calls. */
export interface ToolHooks {
  readonly canCall?: (target: ToolTarget, run: RunContext) => boolean | Promise<boolean>;
  readonly preview?: (target: ToolTarget, input: unknown, context: ToolCallContext) => unknown;
  /** Undoes what a directive of the tool did. */
  readonly compensate?: (target: ToolTarget, input: unknown, performed: PerformedDirective, context: ToolCallContext) => unknown;
}

/** The hooks of a tool that has no target. */
export type OwnHooks = Pick<RawToolDeclaration, 'canCall' | 'preview'> & { readonly compensate?: RawCompensation | undefined };

type RawCompensation = NonNullable<NonNullable<RawToolDeclaration['directive']>['compensate']>;

/** The hooks of a decorated method, which are methods beside it, looked up by name when they are asked. */
export function methodHooks({ options }: ToolMethod): ToolHooks {
  const { canCall, preview, directive } = options ?? {};
  const compensate = directive?.compensate;
  const { canCall: own } = ownHooks(typeof canCall === 'function' ? { canCall } : {});
  return {
    ...(own && { canCall: own }),
    ...(typeof canCall === 'string' && { canCall: async (target, run) => (await callMethod(await target(run), canCall, [run])) === true }),
    ...(preview !== undefined && {
      preview: async (target, input, context) => callMethod(await target(context), preview, [input, context]),
    }),
    ...(compensate !== undefined && {
      compensate: async (target, input, performed, context) => callMethod(await target(context), compensate, [input, performed, context]),
    }),
  };
}

export function ownHooks({ canCall, preview, compensate }: OwnHooks): ToolHooks {
  return {
    ...(canCall && { canCall: (_target, run) => canCall(run) }),
    ...(preview && { preview: (_target, input, context) => preview(input, context) }),
    ...(compensate && { compensate: (_target, input, performed, context) => compensate(input, performed, context) }),
  };
}

/** Returns the names of the methods that are called for a tool: its own, and those of its hooks. */
export function methodsAskedOf({ property, options }: ToolMethod): readonly string[] {
  const { canCall, preview, directive } = options ?? {};
  return [property, canCall, preview, directive?.compensate].filter((name) => typeof name === 'string');
}

/** Hooks that name no method of the class. */
export function methodHookFindings(at: string, type: Type, { options }: ToolMethod): Finding[] {
  const { canCall, preview, directive } = options ?? {};
  return [
    ...namedFindings(at, type, 'compensate', directive?.compensate),
    ...namedFindings(at, type, 'canCall', canCall),
    ...namedFindings(at, type, 'preview', preview),
  ];
}

/** A name that is no text is a finding of the table. */
function namedFindings(at: string, type: Type, option: string, name: unknown): Finding[] {
  if (typeof name !== 'string') return [];
  const methods = methodNamesOf(type).filter((one) => handlerOf(type, one));
  if (methods.includes(name)) return [];
  return [{ at, problem: `Its ${option} names "${name}", and ${type.name} has no such method.`, remedy: nearestName(name, methods) }];
}
