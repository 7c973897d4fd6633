import type { Type } from '@nestjs/common';
import type { JSONSchema7 } from 'json-schema';
import type { EntityContext } from './entity-resolver.js';
import type { ToolExecutionOptions } from './execution-options.js';
import type { JsonObject, JsonValue } from './json.js';
import type { SubRun } from './sub-run.js';
import type { RunContext, ToolCallContext } from './tool-call-context.js';
import type { ToolLayers } from './tool-layers.js';

/** What a tool does to the world. Policy, scheduling and retries read it. */
export type ToolEffect = 'read_only' | 'state_change' | 'external_side_effect';

export const TOOL_EFFECTS: readonly ToolEffect[] = ['read_only', 'state_change', 'external_side_effect'];

/** How information flows through a tool: whether its result can be trusted, what it reads, and whether it can carry data out. */
export interface ToolLabels {
  /** `trusted` only if nobody from outside can have written any of the result. @default 'untrusted' */
  readonly returns: 'trusted' | 'untrusted';
  /** `public` if anybody may know what the tool reads. @default 'private' */
  readonly reads: 'public' | 'private';
  /** Whether a call can carry data out of the system. @default true for `external_side_effect`, else false */
  readonly egress: boolean;
  /** What the run may have read before a call without that asking for approval: untrusted content, or private data. @default neither */
  readonly accepts?: { readonly untrusted?: boolean; readonly private?: boolean };
  /**
   * The arguments that decide whom or what a call is about, such as a recipient. At the level `provenance` only their origin is checked; the others, such as a text to
   * send, may come from anywhere. @default every argument
   */
  readonly decisive?: readonly string[];
}

/** Reserved argument names that a tool may declare nevertheless, and why. */
export interface ReservedAllowance {
  readonly arguments: readonly string[];
  readonly reason: string;
}

/** Who a projection of a result is made for. */
export type Audience = 'model' | 'ui' | 'audit';

/** What may leave a tool, as data: the fields a class exposes, the named fields of a plain object, or everything. */
export type ToolRedaction =
  | { readonly kind: 'output'; readonly type: string; readonly list: boolean; readonly nullable: boolean }
  | { readonly kind: 'reveal'; readonly fields: 'all' | readonly string[] };

/**
 * What is semantic about a tool, free of any provider's format. The object is frozen, so that a wire may keep its encoding by identity.
 */
export interface ToolSpec {
  /** What the model calls it by; matches `^[a-zA-Z0-9_-]{1,64}$`. */
  readonly id: string;
  /** What policy, selection, budgets and audit match: the id, or `{prefix}_*_{method}` for an entity tool. */
  readonly declaredId: string;
  readonly description: string;
  readonly inputSchema: JSONSchema7;
  readonly outputSchema?: JSONSchema7;
  readonly effect: ToolEffect;
  readonly labels: ToolLabels;
  readonly redaction: ToolRedaction;
  /** SHA-256, in hex, of the canonical JSON of description, input and output schema. */
  readonly schemaHash: string;
}

/** Where a tool comes from. Policy globs never match the tools of an untrusted source. */
export interface ToolOrigin {
  readonly source: string;
  readonly trusted: boolean;
  /** Set where the application's policy pins the description of a tool of an untrusted source. What a source itself says here counts for nothing. */
  readonly pinned?: true;
}

/** The entity instance an entity tool is bound to. */
export interface EntityReference {
  /** Name of the class, as shown in events. */
  readonly provider: string;
  /** The real instance id, never a handle. */
  readonly instanceId: string;
  /** How many injections lie between the application's own tools and this one; 1 for an entity that a service tool returned. */
  readonly depth: number;
}

/** What a call over a tool that stands for others means: a method of one instance, and what the model would have sent to its own tool. */
export interface MeantCall {
  readonly declaredId: string;
  /** The real id, as the model said it. */
  readonly instanceId: string;
  readonly args: JsonValue;
}

/** How the model is offered the tools of many instances as one. */
export interface ToolSurface {
  /** `grouped`: one method of all instances of a class. `dispatcher`: every method of every instance. */
  readonly kind: 'grouped' | 'dispatcher';
  /** Declared ids of the tools that may be called over it. */
  readonly offers: ReadonlySet<string>;
  /** Undefined for arguments that mean no call, whatever instances there are. */
  meant(args: JsonValue): MeantCall | undefined;
}

/** Something wrong with one argument, said so that a model can mend it. */
export interface ArgumentProblem {
  /** JSON pointer into the arguments, e.g. `/address/city`; empty for the whole. */
  readonly pointer: string;
  readonly message: string;
}

/** What a tool's method receives, or what a model has to mend. */
export type InputReading = { readonly value: unknown } | { readonly problems: readonly ArgumentProblem[] };

/** The way from JSON arguments to what a tool's method receives: {@link normalize}, the schema, {@link read}. */
export interface ToolInputCodec {
  readonly schema: JSONSchema7;
  /** Names of top-level arguments that the ui and the audit may not see. */
  readonly hidden: readonly string[];
  /** Argument names at any depth that no model may send; see {@link ToolLoopOptions.reservedArguments}. */
  readonly reserved: readonly string[];
  /** Leaves out the nulls that mean "not given", so that defaults apply; what it is handed is never changed. */
  normalize(args: JsonObject): JsonObject;
  /** Makes what {@link Tool.invoke} receives of arguments that fit the schema, and checks what a schema cannot say. The JSON is never changed. */
  read(args: JsonObject): InputReading | Promise<InputReading>;
  /** Makes the same without a check, for tools that check for themselves; absent where making and checking are one. */
  build?(args: JsonObject): unknown;
}

/** Under this name the model reads of an entity what can be called on it; see `availableOperations` of the execution options. */
export const OPERATIONS_KEY = '_availableOperations';

/** Told of every object of a class in a result, and of the JSON that is shown of it. */
export type ProjectionObserver = (source: object, json: Record<string, JsonValue>) => void;

/** Turns a tool's live result into the JSON one audience may see. Throws when the result is not what the tool declared. */
export interface ResultProjector {
  /** The class whose exposed properties are all that leaves; absent where no class is declared. */
  readonly declared?: Type;
  /** `shown` is told of every object of a class and the JSON that was made of it, which is its own and may be added to. */
  project(value: unknown, audience: Audience, shown?: ProjectionObserver): JsonValue;
}

/** How an entity tool finds its instance before a call. */
export interface ToolRehydration {
  /** The same for all tools of the instance: calls that need it at the same time look it up once. */
  readonly key: string;
  /** Undefined if it is gone, or the run's actor may not have it. Rejects if that cannot be found out. */
  readonly lookUp: (context: EntityContext) => Promise<object | undefined>;
  /** The tool on what was found, for one call. */
  on(instance: object): Tool;
}

/** What was performed, for the method that undoes it. */
export interface PerformedDirective {
  readonly directiveId: string;
  /** The `context.idempotencyKey` of the effect; the undoing has its own. */
  readonly idempotencyKey: string;
  /** In the ui projection. */
  readonly result?: JsonValue;
}

/** How a tool requests its effect instead of having it at once; see `directive` of `@LlmTool()`. */
export interface ToolDirective {
  readonly type: string;
  readonly preview: 'required' | 'optional';
  readonly maybeRan: 'ask' | 'repeat';
  readonly attempts: number;
  /** Of the canonical arguments. */
  subjectOf(args: JsonObject): string;
  /** Of the canonical arguments; absent where it is the request's id that makes two requests one. */
  keyOf?(args: JsonObject): string;
  /** Undoes what {@link Tool.invoke} did; it is handed the same input. */
  compensate?(input: unknown, performed: PerformedDirective, context: ToolCallContext): unknown;
}

/** Who shares an idempotency key of a tool: only the same actor, or everybody of the tenant. */
export type IdempotencyScope = 'actor' | 'tenant';

/**
 * A tool that can be run. Only `ToolRunner.exec` calls {@link invoke}; everything else goes by {@link spec}.
 */
export interface Tool {
  readonly spec: ToolSpec;
  readonly origin: ToolOrigin;
  readonly input: ToolInputCodec;
  readonly output: ResultProjector;
  /** Set on entity tools. */
  readonly entity?: EntityReference;
  /** Set on a tool over which others are called; a call of it is a call of one of them, and it is never invoked itself. */
  readonly surface?: ToolSurface;
  /** Set on entity tools whose instance is found anew before each call. */
  readonly rehydration?: ToolRehydration;
  /** The tool whose result brought it, as the model called it. Set on entity tools. */
  readonly givenBy?: string;
  /** Whether the tool makes sense for this run; a tool it rejects is not listed. */
  readonly when?: (context: RunContext) => boolean;
  /** Overrides `limits.toolCallMs` for this tool, in milliseconds. */
  readonly timeoutMs?: number;
  /**
   * What makes two calls one effect; see `idempotencyKey` of `@LlmTool()`. It is handed what {@link invoke} receives.
   */
  readonly idempotencyKey?: (input: unknown, context: RunContext) => string;
  /** Whose calls share it. @default 'actor' */
  readonly idempotencyScope?: IdempotencyScope;
  /** Whether a call that may have been made is made again; see `idempotent` of `@LlmTool()`. */
  readonly idempotent?: boolean;
  /** Calls of this declared id that run at once in the process, whoever makes them. @default as many as are made */
  readonly concurrency?: number;
  /** What the tool, or its provider, says of how it is executed. The same object for every instance of an entity. */
  readonly execution?: ToolExecutionOptions;
  /** Whether whom a run acts for may call it, beside what policy says; asked at every call. Whatever is not `true` denies. */
  readonly canCall?: (run: RunContext) => boolean | Promise<boolean>;
  /** What a call would do, for whoever approves it: a sentence or a `ToolPreview`. It is handed what the method would be. */
  readonly preview?: (input: unknown, context: ToolCallContext) => unknown;
  /** Set where a call asks for the effect, and the directive runner has it later. */
  readonly directive?: ToolDirective;
  /** Set where reserved names do not hold for the tool; every call of it is in the audit with the reason. */
  readonly allowReserved?: ReservedAllowance;
  /** A result in a sentence, for the envelope. It is handed what the model may see. */
  readonly humanReadable?: (result: JsonValue) => string;
  /** Nest's own layers round the method, where there are any; of a request-scoped provider, those of the run. */
  readonly layers?: (run: RunContext) => ToolLayers | undefined | Promise<ToolLayers | undefined>;
  /** Set where a call is a run: the loop performs it in the place of {@link invoke}. */
  readonly subRun?: SubRun;
  /** Calls the user's code. May return a value, a Promise, an Observable or an AsyncIterable. */
  invoke(input: unknown, context: ToolCallContext): unknown;
}

/** The port for contributing tools at bootstrap. A module registers one as a provider; the catalog finds it. */
export abstract class ToolSource {
  abstract readonly origin: ToolOrigin;
  abstract tools(): readonly Tool[] | Promise<readonly Tool[]>;
}
