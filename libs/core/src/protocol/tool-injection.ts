import type { Type } from '@nestjs/common';
import type { Message } from './message.js';
import type { Tool, ToolSpec } from './tool.js';
import type { RunContext } from './tool-call-context.js';
import type { ToolInvocationRecord } from './tool-invocation-record.js';
import type { WarningCode } from './loop-event.js';

/** A result a strategy may derive tools from. */
export interface InjectionResult {
  readonly record: ToolInvocationRecord;
  readonly tool: ToolSpec;
  /** What the tool's method returned, before any projection; undefined where it failed. */
  readonly live: unknown;
  /** The class the tool declares as its result, whose exposed properties are what the model sees of `live`. */
  readonly returns?: Type;
  /** Depth of the tool that returned it: 0 for the application's own. */
  readonly depth: number;
}

/** What a strategy may look at. */
export interface ToolInjectionContext {
  readonly run: RunContext;
  readonly history: readonly Message[];
  readonly toolset: readonly ToolSpec[];
  readonly last: InjectionResult;
  readonly step: number;
  readonly limits: { readonly injectionDepth: number };
  readonly handles: EntityHandles;
}

/** The run's names for entity instances. One per run; the same instance always has the same name. */
export interface EntityHandles {
  /** The instance id as it stands where it is safe and no longer than `maxLength`, else a handle such as `h1`. */
  nameOf(type: object, instanceId: string, maxLength: number): string;
}

/** Tools for the next step. */
export interface ToolInjection {
  readonly add?: readonly Tool[];
  /** Rendered ids. */
  readonly remove?: readonly string[];
  readonly warnings?: readonly { readonly code: WarningCode; readonly message: string }[];
}

/**
 * Decides, after every tool result, which tools appear or go. Returns data; the loop applies it, under policy and limits. Holds no state of a run.
 */
export abstract class ToolInjectionStrategy {
  /** Shown in `tools-injected` where no entity is behind the tools. */
  abstract readonly name: string;
  abstract evaluate(context: ToolInjectionContext): ToolInjection | Promise<ToolInjection>;
}
