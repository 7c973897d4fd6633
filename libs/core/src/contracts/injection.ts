import type { Type } from '@nestjs/common';
import type {
  EntityReference,
  Message,
  ToolInvocationRecord,
  ToolSpec,
  WarningCode,
} from '@toolloop/protocol';
import type { ToolSelector } from './tool-selector.js';
import type { RunContext } from './tool-call.js';
import type { Tool } from './tool.js';

/**
 * The port that decides after every tool result which tools are added or removed. It returns data,
 * which the loop applies under policy and limits. It holds no state of a run.
 *
 * @example
 * class RefundsAfterLogin extends ToolInjectionStrategy {
 *   readonly name = 'refunds after login';
 *   override readonly withheld = ['bank__refund'];
 *
 *   evaluate({ last, withheld }: ToolInjectionContext): ToolInjection {
 *     return last.record.declaredId === 'auth__login' && last.record.status === 'succeeded'
 *       ? { add: withheld.all }
 *       : {};
 *   }
 * }
 */
export abstract class ToolInjectionStrategy {
  /** The name in `tools-injected` for tools that belong to no entity. */
  abstract readonly name: string;
  /**
   * The tools of the catalog that a run starts without, because the strategy adds them later. They
   * are withheld even if injection is turned off. A name that no tool has keeps the application, or
   * the run, from starting. @default none
   */
  readonly withheld?: readonly ToolSelector[];
  /**
   * Leaves tools to other strategies that withhold them as well, as a search through everything and
   * a strategy for the tools of entities do. @default false
   */
  readonly yields?: boolean;
  /** The tools whose results it waits for; checked like `withheld`. @default none */
  readonly awaited?: readonly string[];
  /**
   * The roles of its actor that a run has from the start, even if injection is turned off. @default
   * all of them
   */
  readonly startsAs?: readonly string[];
  /**
   * The ids of tools that are not in the catalog and that it may add. Policies, selections and
   * sub-runs of the application and its loops may name them; a tool of an untrusted source never
   * joins unless a policy names it. @default none
   */
  readonly announced?: readonly string[];
  /**
   * Adds tools at the start of a run, under policy but not limited by the cap; called again when a
   * run is resumed.
   */
  begin?(beginning: RunBeginning): ToolInjection;
  /**
   * Matches the live value of a call once, before it is lost with its process: `evaluate` follows
   * when the step is complete, which may be in another process and after a wait. The returned names
   * are saved with the result as JSON, and are `last.matchedTriggers` there. @default nothing
   */
  notice?(result: Pick<InjectionResult, 'record' | 'live'>): readonly string[] | undefined;
  /**
   * Tells at a glance, as every result is looked at, if one may change anything. `evaluate` is
   * called for those alone. @default true
   */
  concerns?(result: Pick<InjectionResult, 'tool' | 'live' | 'entities' | 'returns'>): boolean;
  abstract evaluate(context: ToolInjectionContext): ToolInjection | Promise<ToolInjection>;
}

/**
 * The way entity tools are presented to the model. `named`: one tool per instance and method.
 * `grouped`: one per method, whose `id` names the instance. `dispatcher`: one for all of them.
 * `auto`: named, until there would be more than `limits.injectedTools`; then grouped.
 */
export type EntitySurface = 'auto' | 'named' | 'grouped' | 'dispatcher';

/** Identifies an entity. */
export interface EntityKey extends Pick<EntityReference, 'instanceId'> {
  /** The prefix of its class, which is unique. */
  readonly prefix: string;
}

/** A result a strategy may derive tools from. */
export interface InjectionResult {
  readonly record: ToolInvocationRecord;
  readonly tool: ToolSpec;
  /** The id that the model called, if it is another: that of a surface. */
  readonly calledAs?: string;
  /** The value that the tool's method returned, before any projection; undefined if it failed. */
  readonly live: unknown;
  /**
   * The triggers that the strategy's `notice` matched for `live`; undefined if it was not called,
   * or failed.
   */
  readonly matchedTriggers?: readonly string[];
  /**
   * The entities in it that a resolver can load again, if the run has waited since and the process
   * that had `live` is gone.
   */
  readonly entities?: readonly EntityKey[];
  /**
   * The class the tool declares as its result, whose exposed properties are what the model sees of
   * `live`.
   */
  readonly returns?: Type;
  /** The depth of the tool that returned it: 0 for the application's own. */
  readonly depth: number;
}

/**
 * The triggers that strategies matched for a live value, by strategy; JSON, since it outlives the
 * value.
 */
export type MatchedTriggers = readonly (readonly [strategy: string, triggers: readonly string[]])[];

/** The input of a strategy after a result. */
export interface ToolInjectionContext {
  readonly run: RunContext;
  readonly history: readonly Message[];
  /**
   * The tools that the model may call. Tools of entities are in it under their own ids, even if
   * they are called over a surface.
   */
  readonly toolset: readonly ToolSpec[];
  readonly last: InjectionResult;
  readonly step: number;
  readonly limits: { readonly injectionDepth: number };
  readonly handles: EntityHandles;
  /** The tools that the strategy withholds and may add. */
  readonly withheld: WithheldTools;
  /**
   * The number of tools that can still be injected before the run has `limits.injectedTools`; those
   * of entities do not count.
   */
  readonly room: number;
}

/** The input of a strategy when a run starts. */
export interface RunBeginning extends Pick<
  ToolInjectionContext,
  'run' | 'withheld' | 'toolset' | 'room'
> {
  /** The records of the calls before the run waited, if it is resumed. */
  readonly records: readonly ToolInvocationRecord[];
  /** The rendered ids of the tools that its model saw when it began to wait, if it is resumed. */
  readonly shown?: readonly string[];
}

/**
 * The tools that a strategy withholds in one run, as far as the run selects them and its policies
 * permit them.
 */
export interface WithheldTools {
  readonly all: readonly Tool[];
  /**
   * Returns the tools that a selector names, in the order of the catalog.
   *
   * @throws InvalidRequestError for a name that no tool of the catalog has
   */
  named(selectors: readonly ToolSelector[]): readonly Tool[];
  /** Finds the tools with words of a text in their id, description or parameters, best first. */
  search(text: string, most: number): readonly Tool[];
}

/**
 * The run's names for entity instances. One per run; the same instance always has the same name.
 */
export interface EntityHandles {
  /**
   * Returns the instance id itself if it is safe and no longer than `maxLength`, else a handle such
   * as `h1`.
   */
  nameOf(type: object, instanceId: string, maxLength: number): string;
}

/**
 * The cause of a tool's removal, as data that saved runs keep. The message to the model is made
 * from it at the call, so its words may change between releases, and nothing depends on them.
 */
export type RemovalCause =
  /**
   * The roles of the run do not permit the tool at present: it comes back with them. Of an entity's
   * tool, `givenBy` gave it.
   */
  | { readonly kind: 'role'; readonly perInstance?: true; readonly givenBy?: string }
  /** Newer instances of entities took its place. */
  | { readonly kind: 'evicted'; readonly givenBy?: string }
  /** Its instance ended with the process that held it. */
  | { readonly kind: 'process_ended'; readonly givenBy: string }
  /** It is called over a surface that was removed. */
  | { readonly kind: 'surface' }
  /** Its phase is over; calls of `leadingBack` begin it again. */
  | { readonly kind: 'phase'; readonly phase: string; readonly leadingBack: readonly string[] }
  /** Newer results of the search `searchId` took its place. */
  | { readonly kind: 'search'; readonly searchId: string }
  /** It is withheld, since the call of `after` if that is known. */
  | { readonly kind: 'withheld'; readonly after?: string }
  /** Its source offers it no more, or with another definition. */
  | { readonly kind: 'source' }
  /** A strategy removed it, for reasons of its own. */
  | { readonly kind: 'removed'; readonly strategy: string; readonly howToGetBack?: string };

/** Changes in the toolset of the next step. */
export interface ToolInjection {
  readonly add?: readonly Tool[];
  /** The rendered ids of the tools to remove. */
  readonly remove?: readonly string[];
  /**
   * The declared ids, short names or globs of tools that are removed, or not added, from now on: a
   * search no longer finds them, and no entity brings them. Only a strategy that does not `yield`
   * can add them again.
   */
  readonly withhold?: readonly string[];
  /**
   * One or two sentences that a model reads if it calls a removed tool. @default the hint to call
   * the tool that gave it again
   */
  readonly howToGetBack?: string;
  /**
   * The cause of the removal as data, which replaces `howToGetBack`. @default `removed`, by this
   * strategy
   */
  readonly cause?: Exclude<RemovalCause, { readonly kind: 'role' }>;
  /**
   * The roles of its actor that the run has from now on; `all` for every one. A call must then be
   * permitted with these roles and with all of them, so that a run never gains what its actor does
   * not have. In a sub-run it applies to that run alone. @default as before
   */
  readonly roles?: readonly string[] | 'all';
  readonly warnings?: readonly { readonly code: WarningCode; readonly message: string }[];
}
