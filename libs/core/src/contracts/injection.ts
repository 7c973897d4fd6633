import type { Type } from '@nestjs/common';
import type { EntityReference, Message, ToolInvocationRecord, ToolSpec, WarningCode } from '@toolloop/protocol';
import type { ToolSelector } from './loop-request.js';
import type { RunContext } from './tool-call.js';
import type { Tool } from './tool.js';

/**
 * How entity tools are presented to the model. `named`: one tool per instance and method. `grouped`: one per method, whose `id` names the instance.
 * `dispatcher`: one for all of them. `auto`: named, until there would be more than `limits.injectedTools`; then grouped.
 */
export type EntitySurface = 'auto' | 'named' | 'grouped' | 'dispatcher';

/** Identifies an entity. */
export interface EntityKey extends Pick<EntityReference, 'instanceId'> {
  /** Unique to its class. */
  readonly prefix: string;
}

/** A result a strategy may derive tools from. */
export interface InjectionResult {
  readonly record: ToolInvocationRecord;
  readonly tool: ToolSpec;
  /** The id that the model called, if it is another: that of a surface. */
  readonly calledAs?: string;
  /** What the tool's method returned, before any projection; undefined if it failed. */
  readonly live: unknown;
  /** What the strategy's `notice` said of `live`; undefined where it was not asked, or failed. */
  readonly noticed?: readonly string[];
  /** The entities in it that a resolver can load again, if the run has waited since and the process that had `live` is gone. */
  readonly entities?: readonly EntityKey[];
  /** The class the tool declares as its result, whose exposed properties are what the model sees of `live`. */
  readonly returns?: Type;
  /** Depth of the tool that returned it: 0 for the application's own. */
  readonly depth: number;
}

/** What strategies noticed in what a tool really returned, by strategy; JSON, as it outlives the result. */
export type NoticedResult = readonly (readonly [strategy: string, noticed: readonly string[]])[];

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
  /** The tools that the strategy holds back and may add. */
  readonly withheld: WithheldTools;
  /** How many tools can still be injected before the run holds `limits.injectedTools`; those of entities take no room. */
  readonly room: number;
}

/** What a strategy may look at when a run starts. */
export interface RunBeginning extends Pick<ToolInjectionContext, 'run' | 'withheld' | 'toolset' | 'room'> {
  /** Of the calls before the run waited, if it is resumed. */
  readonly records: readonly ToolInvocationRecord[];
  /** Rendered ids of the tools its model was shown when it began to wait, if it is resumed. */
  readonly shown?: readonly string[];
}

/** The tools that a strategy holds back in one run, as far as the run selects them and its policies permit them. */
export interface WithheldTools {
  readonly all: readonly Tool[];
  /** Those that a selector names, in the order of the catalog. Throws `InvalidRequestError` for a name that no tool of the catalog has. */
  named(selectors: readonly ToolSelector[]): readonly Tool[];
  /** Those that have words of a text in their id, description or parameters, best first. */
  search(text: string, most: number): readonly Tool[];
}

/** The run's names for entity instances. One per run; the same instance always has the same name. */
export interface EntityHandles {
  /** The instance id itself if it is safe and no longer than `maxLength`, else a handle such as `h1`. */
  nameOf(type: object, instanceId: string, maxLength: number): string;
}

/**
 * The cause of a tool's removal, as data that saved runs keep. What a model is told is worded from it at the call, so the words may change between releases;
 * no word of them decides anything.
 */
export type RemovalCause =
  /** The roles of the run do not permit the tool at present: it comes back with them. Of an entity's tool, `givenBy` gave it. */
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
  /** It stays away, since the call of `after` where that is known. */
  | { readonly kind: 'kept_away'; readonly after?: string }
  /** A strategy removed it, for reasons of its own. */
  | { readonly kind: 'removed'; readonly strategy: string; readonly howToGetBack?: string };

/** Changes in the toolset of the next step. */
export interface ToolInjection {
  readonly add?: readonly Tool[];
  /** Rendered ids. */
  readonly remove?: readonly string[];
  /**
   * Declared ids, short names or globs of tools that go and stay away, whether they are there by now or not: a search does not find them any more, and no entity
   * brings them. Only a strategy that does not `yield` can add them again.
   */
  readonly keepAway?: readonly string[];
  /** One or two sentences that a model reads if it calls a removed tool. @default it is told to call the tool that gave it again */
  readonly howToGetBack?: string;
  /** The cause of the removal as data, from which the model is told instead of by `howToGetBack`. @default `removed`, by this strategy */
  readonly cause?: Exclude<RemovalCause, { readonly kind: 'role' }>;
  /**
   * Which of its actor's roles the run holds from now on; `all` for every one. A call must then be permitted with these roles and with all of them, so that
   * a run never gains what its actor does not have. In a sub-run it applies to that run alone. @default as before
   */
  readonly roles?: readonly string[] | 'all';
  readonly warnings?: readonly { readonly code: WarningCode; readonly message: string }[];
}

/**
 * Decides after every tool result which tools appear or disappear. It returns data, which the loop applies under policy and limits. It holds no state of a run.
 */
export abstract class ToolInjectionStrategy {
  /** Shown in `tools-injected` for tools that belong to no entity. */
  abstract readonly name: string;
  /**
   * Tools of the catalog that a run starts without, because the strategy adds them later. They are held back even if injection is turned off. A name that
   * no tool has keeps the application, or the run, from starting. @default none
   */
  readonly withheld?: readonly ToolSelector[];
  /**
   * Whether it leaves tools to other strategies that these hold back as well, or keep away, as a search through everything does, and whatever brings the tools
   * of entities. @default false
   */
  readonly yields?: boolean;
  /** Tools whose results it waits for; checked as `withheld` is. @default none */
  readonly awaited?: readonly string[];
  /** Which of its actor's roles a run holds from the start, even if injection is turned off. @default all of them */
  readonly startsAs?: readonly string[];
  /**
   * Ids of tools that are not in the catalog and that it may add. Policies, selections and sub-runs of the application and its loops may name them; a tool of an
   * untrusted source never joins unless a policy names it. @default none
   */
  readonly announced?: readonly string[];
  /** What it adds at the start of a run, under policy but not limited by the cap; asked again when a run is resumed. */
  begin?(beginning: RunBeginning): ToolInjection;
  /**
   * Asked once of what a call returned, before that is lost with its process: `evaluate` follows when the step is complete, which may be elsewhere and after a
   * wait. What it says is kept with the result as JSON, and is `last.noticed` there. @default nothing
   */
  notice?(result: Pick<InjectionResult, 'record' | 'live'>): readonly string[] | undefined;
  abstract evaluate(context: ToolInjectionContext): ToolInjection | Promise<ToolInjection>;
}
