import type { JSONSchema7 } from 'json-schema';

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

/** Something wrong with one argument, said so that a model can mend it. */
export interface ArgumentProblem {
  /** JSON pointer into the arguments, e.g. `/address/city`; empty for the whole. */
  readonly pointer: string;
  readonly message: string;
}
