import type { JSONSchema7 } from 'json-schema';
import type { JsonObject } from './json.js';
import type { ToolEffect, ToolOrigin, ToolSpec } from './tool.js';

/** Which tools somebody may call. Patterns match declared ids; `*` stands for any characters. */
export interface PolicyGrants {
  readonly allow?: readonly string[];
  /** Wins over every `allow`. */
  readonly deny?: readonly string[];
}

/**
 * How far a policy looks at where information comes from and where it goes.
 *
 * - `off`: not at all.
 * - `legs`: a call that can carry data out asks, once the run has read private data and untrusted content.
 * - `effect`: whatever is not `read_only` asks.
 * - `taint`: `legs`, and whatever is not `read_only` asks once the run has read untrusted content.
 * - `provenance`: as `taint`, but a call whose deciding arguments all stem from the user's own words, or from trusted results, does not ask.
 */
export type FlowLevel = 'off' | 'legs' | 'effect' | 'taint' | 'provenance';

/** Who may answer an approval, and how. */
export interface ApprovalTerms {
  /** Any of these makes an approver. @default the one for whom the run acts, or with `notRequester` anybody else of the tenant */
  readonly roles?: readonly string[];
  /** Whether the one for whom the run acts may not answer. @default false */
  readonly notRequester?: boolean;
  /** Whether the approver may change the arguments. @default false */
  readonly mayEdit?: boolean;
  /** Whether a yes may hold for further calls of the same rule in the same run. @default false */
  readonly mayRemember?: boolean;
  /** Milliseconds. @default 86,400,000, a day */
  readonly expiresAfterMs?: number;
}

/** Calls that need a person's yes: those of which everything holds that the rule names. */
export interface ApprovalRule extends ApprovalTerms {
  /** @default every tool */
  readonly tools?: readonly string[];
  /** @default every effect */
  readonly effects?: readonly ToolEffect[];
  /** The canonical arguments fit this schema, e.g. `{ properties: { amount: { minimum: 100 } } }`. */
  readonly arguments?: JSONSchema7;
  /** The run has read untrusted content. */
  readonly tainted?: true;
  /** Said to the approver and in the decision. */
  readonly reason?: string;
}

/** What a run may use up altogether. Calls that were let in count, whether they succeed or not. */
export interface RunBudget {
  /** @default every tool */
  readonly tools?: readonly string[];
  readonly calls?: number;
  /** The sum over a numeric argument of those tools, named by its JSON pointer, e.g. `/amount`. */
  readonly sum?: { readonly argument: string; readonly most: number };
  /** Input and output tokens of the run so far. */
  readonly tokens?: number;
  /** Cost of the run's model calls so far. Where a model reports none and has no price (`prices`), nobody knows it, and the call goes beyond. */
  readonly usd?: number;
  /** What happens to the call that goes beyond. @default 'deny' */
  readonly beyond?: 'deny' | 'ask';
}

/** What one call may use. The strictest of all that match holds; a limit of the run or the tool is never widened. */
export interface CallBudget {
  /** @default every tool */
  readonly tools?: readonly string[];
  readonly maxRuntimeMs?: number;
  readonly maxResultBytes?: number;
  readonly maxArgsBytes?: number;
}

/** Which connections tools may use. Once a policy has such a rule, what none names is refused. */
export interface ConnectionRule {
  readonly tools: readonly string[];
  /** Connection ids; `*` stands for any characters. */
  readonly connections: readonly string[];
}

/**
 * What a run may do, as data: JSON in, JSON out. Patterns match declared ids; `*` stands for any characters. Globs never match the tools of an
 * untrusted source, those are named exactly. What nothing allows is denied.
 */
export interface Policy extends PolicyGrants {
  /** Carried by every decision. @default a hash of the policy */
  readonly version?: string;
  readonly allow: readonly string[];
  /** What holds beside `allow` and `deny` for a tenant. */
  readonly tenants?: Readonly<Record<string, PolicyGrants>>;
  /** What holds beside `allow` and `deny` for an actor with a role. */
  readonly roles?: Readonly<Record<string, PolicyGrants>>;
  /** Effects that may happen at all. @default every effect */
  readonly effects?: readonly ToolEffect[];
  readonly requireApproval?: readonly ApprovalRule[];
  readonly runBudgets?: readonly RunBudget[];
  readonly callBudgets?: readonly CallBudget[];
  readonly connections?: readonly ConnectionRule[];
  /** @default 'legs' */
  readonly flow?: FlowLevel;
  /** Records in each decision what this policy would have said, and decides nothing. At least one other policy must. @default false */
  readonly shadow?: boolean;
}

/** The answer for one tool or call, with the rule that gave it. */
export interface Decision {
  readonly kind: 'allow' | 'deny' | 'require_approval';
  /** Which rule decided, e.g. `allow: crm__*`. */
  readonly rule: string;
  readonly reason: string;
  readonly policyVersion: string;
  /** Set where a budget is used up. */
  readonly isOverBudget?: true;
  /** What the call may use, where the policy says so. */
  readonly callBudget?: Omit<CallBudget, 'tools'>;
  /** Set where approval is required: an approver must meet each of them. */
  readonly approval?: readonly ApprovalTerms[];
  /** What policies in shadow would have said. */
  readonly shadow?: readonly Pick<Decision, 'kind' | 'rule' | 'policyVersion'>[];
}

/** For whom a decision is made. */
export interface PolicyActor {
  readonly tenant: string;
  readonly roles: readonly string[];
  /** Set where the run holds these of them only: then a call must be permitted with them, and with all. */
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
}

/** What a run has used up so far. */
export interface RunSpending {
  /** Calls that were let in. */
  readonly calls: readonly { readonly declaredId: string; readonly trusted: boolean; readonly args: JsonObject }[];
  readonly tokens: number;
  readonly usd: number;
  /** Set where a model has answered whose answer has no cost: then `usd` is less than it was. */
  readonly hasUnknownCost?: boolean;
}

/**
 * The port that decides. Listing and execution ask the same method, so it answers at once: an engine whose rules lie elsewhere keeps a copy of them.
 * What it throws denies.
 */
export abstract class PolicyEngine {
  abstract decide(subject: PolicySubject): Decision;
}
