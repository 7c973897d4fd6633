import type { JSONSchema7 } from 'json-schema';

/** The effect of a tool on the world. Policy, scheduling and retries depend on it. */
export type ToolEffect = 'read_only' | 'state_change' | 'external_side_effect';

export const TOOL_EFFECTS: readonly ToolEffect[] = [
  'read_only',
  'state_change',
  'external_side_effect',
];

/**
 * The writer of a value: the application itself, the actor of the run, or anyone else. Fields of a
 * result say it by `x-toolloop-origin` in the tool's output schema.
 */
export type ValueOrigin = 'application' | 'actor' | 'outside';

/**
 * The information flow of a tool: whether its result can be trusted, what it reads, and whether it
 * can carry data out.
 */
export interface ToolLabels {
  /**
   * The trust in the result; `trusted` only if no outsider can have written any of it. @default
   * 'untrusted'
   */
  readonly returns: 'trusted' | 'untrusted';
  /**
   * The privacy of the data that the tool reads; `public` if everyone may know it. @default
   * 'private'
   */
  readonly reads: 'public' | 'private';
  /**
   * `true` if a call can carry data out of the system. @default true for `external_side_effect`,
   * else false
   */
  readonly egress: boolean;
  /**
   * The content that a run may have read without its calls requiring approval: untrusted content,
   * or private data. @default neither
   */
  readonly accepts?: { readonly untrusted?: boolean; readonly private?: boolean };
  /**
   * The arguments that decide whom or what a call is about, such as a recipient. At the level
   * `values` only they must not hold text from outside; the others, such as a text to send, may
   * come from anywhere. @default every argument
   */
  readonly decisive?: readonly string[];
  /**
   * The name of a store into which calls write, such as `notes`: what was written after text from
   * outside was read comes back from outside. @default none
   */
  readonly writes?: string;
  /**
   * The name of a store from which results are: `returns` and the origins of fields hold only while
   * nothing from outside was written into it. @default none
   */
  readonly from?: string;
}

/** The reader that a projection of a result is made for. */
export type Audience = 'model' | 'ui' | 'audit';

/**
 * The fields that may leave a tool: those that a class exposes, the named ones of a plain object,
 * or all.
 */
export type ToolRedaction =
  | {
      readonly kind: 'output';
      readonly type: string;
      readonly list: boolean;
      readonly nullable: boolean;
    }
  | { readonly kind: 'reveal'; readonly fields: 'all' | readonly string[] };

/**
 * The meaning of a tool, free of any provider's format. The object is frozen, so that a wire may
 * keep its encoding by identity.
 */
export interface ToolSpec {
  /** The id that the model calls the tool by; matches `^[a-zA-Z0-9_-]{1,64}$`. */
  readonly id: string;
  /**
   * The id that policy, selection, budgets and audit match: the same as `id`, or
   * `{prefix}_*_{method}` for an entity tool.
   */
  readonly declaredId: string;
  readonly description: string;
  readonly inputSchema: JSONSchema7;
  readonly outputSchema?: JSONSchema7;
  readonly effect: ToolEffect;
  readonly labels: ToolLabels;
  readonly redaction: ToolRedaction;
  /** The SHA-256, in hex, of the canonical JSON of description, input and output schema. */
  readonly schemaHash: string;
}

/** The tones in which a call can be shown, from harmless to dangerous. */
export const PRESENTATION_TONES = ['neutral', 'positive', 'caution', 'danger'] as const;

/** The forms in which a result can be shown. */
export const RESULT_FORMS = ['text', 'table', 'metrics', 'json'] as const;

/**
 * The words and looks with which people are shown a tool and its calls. All of it is static: it
 * says nothing about one call, no model reads it, and it is no part of the tool's `schemaHash`.
 * Show the texts as plain text.
 */
export interface ToolPresentation {
  /** The name of the tool for people, such as `Refund an order`. @default the tool's id */
  readonly label?: string;
  /** Shown while a call is active, such as `Refunding the order`. */
  readonly running?: string;
  /** Shown once a call has succeeded, such as `Refund requested`. */
  readonly done?: string;
  /** The name of an icon in the application's own set. */
  readonly icon?: string;
  /** @default 'neutral' */
  readonly tone?: (typeof PRESENTATION_TONES)[number];
  /**
   * The question on an approval card. Show it beside the arguments and the preview, which alone say
   * what this call would do.
   */
  readonly confirm?: string;
  /** @default 'text' for texts, else 'json' */
  readonly result?: (typeof RESULT_FORMS)[number];
}

/** The source of a tool. Policy globs never match the tools of an untrusted source. */
export interface ToolOrigin {
  readonly source: string;
  readonly trusted: boolean;
  /**
   * Set where the application pins the description of a tool of an untrusted source: in a policy,
   * or for its source. What the tool says of it counts for nothing.
   */
  readonly pinned?: true;
}

/** The entity instance an entity tool is bound to. */
export interface EntityReference {
  /** The name of the class, as shown in events. */
  readonly provider: string;
  /** The real instance id, never a handle. */
  readonly instanceId: string;
  /**
   * The number of injections between the application's own tools and this one; 1 for an entity that
   * a service tool returned.
   */
  readonly depth: number;
}

/** A problem of one argument, described so that a model can correct it. */
export interface ArgumentProblem {
  /** The JSON pointer into the arguments, e.g. `/address/city`; empty for the whole. */
  readonly pointer: string;
  readonly message: string;
}

/** A tool that a client declares. */
export interface DeclaredTool {
  readonly id: string;
  readonly description?: string;
  /** @default no arguments */
  readonly inputSchema?: JSONSchema7;
}
