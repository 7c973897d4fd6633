import type { Type } from '@nestjs/common';
import type { ToolSelector } from './loop-request.js';
import type { Message } from './message.js';
import type { EntityReference, Tool, ToolSpec } from './tool.js';
import type { RunContext } from './tool-call-context.js';
import type { ToolInvocationRecord } from './tool-invocation-record.js';
import type { WarningCode } from './loop-event.js';

/**
 * How a model is offered the tools of entities. `named`: one tool per instance and method. `grouped`: one per method, whose `id` says the instance.
 * `dispatcher`: one for all of them. `auto`: named, until they would be more than `limits.injectedTools`; then grouped.
 */
export type EntitySurface = 'auto' | 'named' | 'grouped' | 'dispatcher';

/** Which entity it is, whatever is known of it. */
export interface EntityKey extends Pick<EntityReference, 'instanceId'> {
  /** Of its class, and of no other. */
  readonly prefix: string;
}

/** A result a strategy may derive tools from. */
export interface InjectionResult {
  readonly record: ToolInvocationRecord;
  readonly tool: ToolSpec;
  /** The id that the model called, where that is another: of a surface. */
  readonly calledAs?: string;
  /** What the tool's method returned, before any projection; undefined where it failed. */
  readonly live: unknown;
  /** The entities in it that a resolver finds again, where the run waited since and the process that had `live` is gone. */
  readonly entities?: readonly EntityKey[];
  /** The class the tool declares as its result, whose exposed properties are what the model sees of `live`. */
  readonly returns?: Type;
  /** Depth of the tool that returned it: 0 for the application's own. */
  readonly depth: number;
}

/** What a strategy may look at. */
export interface ToolInjectionContext {
  readonly run: RunContext;
  readonly history: readonly Message[];
  /** Everything the model may call. Tools of entities are in it under ids of their own, whatever surface they are called over. */
  readonly toolset: readonly ToolSpec[];
  readonly last: InjectionResult;
  readonly step: number;
  readonly limits: { readonly injectionDepth: number };
  readonly handles: EntityHandles;
  /** What the strategy keeps back, and may give. */
  readonly withheld: WithheldTools;
  /** How many tools can still be injected before the run holds `limits.injectedTools`; those of entities take no room. */
  readonly room: number;
}

/** What a strategy may look at when a run starts. */
export interface RunBeginning extends Pick<ToolInjectionContext, 'run' | 'withheld' | 'toolset' | 'room'> {
  /** Of the calls before the run waited, where it is resumed. */
  readonly records: readonly ToolInvocationRecord[];
  /** Rendered ids of what its model was shown when it came to wait, where it is resumed. */
  readonly shown?: readonly string[];
}

/** The tools that a strategy keeps back in one run: those that the run selects and that its policies permit. */
export interface WithheldTools {
  readonly all: readonly Tool[];
  /** Those that a selector names, in the order of the catalog. Throws `InvalidRequestError` for a name that no tool of the catalog has. */
  named(selectors: readonly ToolSelector[]): readonly Tool[];
  /** Those that have words of a text in their id, description or parameters, best first. */
  search(text: string, most: number): readonly Tool[];
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
  /** What a model reads that calls one of the removed: one or two sentences. @default that the tool which gave it gives it again */
  readonly howToGetBack?: string;
  /**
   * Which of its actor's roles the run holds from now on; `all` for every one. What is permitted must then be so with these roles and with all of them, so that
   * a run gains nothing by it that its actor has not. In a sub-run it holds there alone. @default as before
   */
  readonly roles?: readonly string[] | 'all';
  readonly warnings?: readonly { readonly code: WarningCode; readonly message: string }[];
}

/**
 * Decides, after every tool result, which tools appear or go. Returns data; the loop applies it, under policy and limits. Holds no state of a run.
 */
export abstract class ToolInjectionStrategy {
  /** Shown in `tools-injected` where no entity is behind the tools. */
  abstract readonly name: string;
  /**
   * Tools of the catalog that a run starts without, because the strategy gives them later. They stay away where injection is turned off, too. A name that
   * names nothing keeps the application, or the run, from starting. @default none
   */
  readonly withheld?: readonly ToolSelector[];
  /** Whether it leaves to the others what they keep back too, as a search through everything does. @default false */
  readonly yields?: boolean;
  /** Tools whose results it waits for; checked as `withheld` is. @default none */
  readonly awaited?: readonly string[];
  /** Which of its actor's roles a run holds from the start, where injection is turned off too. @default all of them */
  readonly startsAs?: readonly string[];
  /**
   * Ids of tools that no catalog holds and that it may add. Policies, selections and sub-runs of the application and its loops may name them; without a name in a
   * policy a tool of an untrusted source never joins. @default none
   */
  readonly announced?: readonly string[];
  /** What a run has of it from the start, under policy and beyond the cap; asked again when a run is resumed. */
  begin?(beginning: RunBeginning): ToolInjection;
  abstract evaluate(context: ToolInjectionContext): ToolInjection | Promise<ToolInjection>;
}
