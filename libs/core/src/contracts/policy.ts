import type { ApprovalTerms, CallBudget, Decision, JsonObject, ToolEffect, ToolLabels, ToolOrigin, ToolSpec } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';

/** Which tools somebody may call. Patterns match declared ids; `*` stands for any characters. */
export interface PolicyGrants {
  readonly allow?: readonly string[];
  /** Wins over every `allow`. */
  readonly deny?: readonly string[];
}

/**
 * How closely a policy watches where information comes from and where it goes: which calls need approval.
 *
 * - `off`: none.
 * - `trifecta`: a call that can carry data out, once the run has read private data and untrusted content.
 * - `effect`: every call that is not `read_only`.
 * - `taint`: like `trifecta`, and every call that is not `read_only` once the run has read untrusted content.
 * - `provenance`: like `taint`, except a call whose decisive arguments all come from the user's own words or from trusted results.
 */
export type FlowLevel = 'off' | 'trifecta' | 'effect' | 'taint' | 'provenance';

/** Calls that need approval: those that meet every condition of the rule. */
export interface ApprovalRule extends ApprovalTerms {
  /** @default every tool */
  readonly tools?: readonly string[];
  /** @default every effect */
  readonly effects?: readonly ToolEffect[];
  /** A JSON Schema that the canonical arguments match, e.g. `{ properties: { amount: { minimum: 100 } } }`. @default any arguments */
  readonly arguments?: JSONSchema7;
  /** Only once the run has read untrusted content. */
  readonly tainted?: true;
  /** Shown to the approver and in the decision. */
  readonly reason?: string;
}

/** What a run may use in total. Calls that were let in count, whether they succeed or not. */
export interface RunBudget {
  /** @default every tool */
  readonly tools?: readonly string[];
  readonly calls?: number;
  /** The sum over a numeric argument of those tools, named by its JSON pointer, e.g. `/amount`. */
  readonly sum?: { readonly argument: string; readonly most: number };
  /** Input and output tokens of the run so far. */
  readonly tokens?: number;
  /** Cost in USD of the run's model calls so far. If an answer has neither a reported cost nor a price (`prices`), the cost is unknown and the call exceeds the budget. */
  readonly usd?: number;
  /** What happens to a call that exceeds the budget: it is refused, or needs approval. @default 'deny' */
  readonly beyond?: 'deny' | 'ask';
}

/** Which connections tools may use. Once a policy has such a rule, every connection that no rule names is refused. */
export interface ConnectionRule {
  readonly tools: readonly string[];
  /** Connection ids; `*` stands for any characters. */
  readonly connections: readonly string[];
}

/**
 * What the application vouches for of a tool whose source is not trusted. What such a tool says of its own effect and labels counts for nothing.
 */
export interface VouchedTool {
  /** @default 'external_side_effect' */
  readonly effect?: ToolEffect;
  /** @default 'private' */
  readonly reads?: ToolLabels['reads'];
  /** @default true */
  readonly egress?: boolean;
  /**
   * Pins the description and the schemas that somebody has read, by their `schemaHash`, as `ToolCatalog.describe` tells it. A tool with another hash is
   * not vouched for at all. @default not pinned: a run is tainted as soon as its model is offered the tool
   */
  readonly schemaHash?: string;
}

/**
 * What a run may do, as data: JSON in, JSON out. Patterns match declared ids; `*` stands for any characters. Globs never match the tools of an
 * untrusted source; those must be named exactly. Whatever no rule allows is denied.
 */
export interface Policy extends PolicyGrants {
  /** Recorded in every decision, approval and audit entry. @default a hash of the policy */
  readonly version?: string;
  readonly allow: readonly string[];
  /** Further grants for a tenant, in addition to `allow` and `deny`. */
  readonly tenants?: Readonly<Record<string, PolicyGrants>>;
  /** Further grants for actors with a role, in addition to `allow` and `deny`. */
  readonly roles?: Readonly<Record<string, PolicyGrants>>;
  /** Effects that may happen at all. @default every effect */
  readonly effects?: readonly ToolEffect[];
  readonly requireApproval?: readonly ApprovalRule[];
  readonly runBudgets?: readonly RunBudget[];
  readonly callBudgets?: readonly CallBudget[];
  readonly connections?: readonly ConnectionRule[];
  /** What the application vouches for of tools of untrusted sources, by declared id; only the application's own policy can. Read when it starts. */
  readonly vouched?: Readonly<Record<string, VouchedTool>>;
  /** @default 'trifecta' */
  readonly flow?: FlowLevel;
  /** Only records in each decision what this policy would have said. At least one other policy must decide. @default false */
  readonly shadow?: boolean;
}

/** For whom a decision is made. */
export interface PolicyActor {
  readonly tenant: string;
  readonly roles: readonly string[];
  /** Set if the run holds only some of the roles: then a call must be permitted with these, and with all. */
  readonly assumed?: readonly string[];
}

/** What a policy knows of a tool. */
export interface PolicyTool extends Pick<ToolSpec, 'declaredId' | 'effect' | 'labels' | 'inputSchema'> {
  readonly origin: ToolOrigin;
}

/** What a decision is about: a tool as it is listed, or with `call` one call of it. */
export interface PolicySubject extends PolicyTool {
  readonly actor: PolicyActor;
  readonly call?: PolicyCall;
  /** The connection that the tool asks for while it runs. */
  readonly connection?: string;
}

/** What is known of a call when it is decided. */
export interface PolicyCall {
  /** Canonical. */
  readonly args: JsonObject;
  readonly instanceId?: string;
  readonly flow: InformationFlow;
  readonly spent: RunSpending;
}

/** What the model has read so far in a run, and what a value in a call stems from. */
export interface InformationFlow {
  readonly integrity: 'trusted' | 'untrusted';
  readonly confidentiality: 'public' | 'private';
  /** Whether a text or a number stands in the user's own words or in a trusted result. */
  isTraced(value: string | number): boolean;
  /** Whether a text stands whole in the user's own words. */
  isSaid(value: string): boolean;
}

/** What a run has used up so far. */
export interface RunSpending {
  /** Calls that were let in. */
  readonly calls: readonly { readonly declaredId: string; readonly trusted: boolean; readonly args: JsonObject }[];
  readonly tokens: number;
  readonly usd: number;
  /** Set if some answer had no known cost: then `usd` is less than what was really spent. */
  readonly hasUnknownCost?: boolean;
}

/**
 * The port that decides. Listing and execution ask the same method, so it is synchronous: an engine whose rules live elsewhere keeps a copy of them.
 * If it throws, the call is denied.
 */
export abstract class PolicyEngine {
  abstract decide(subject: PolicySubject): Decision;

  /** What the application vouches for of a tool whose source is not trusted. @default nothing */
  vouchedFor?(declaredId: string): VouchedTool | undefined;
}
