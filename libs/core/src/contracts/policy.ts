import type {
  ApprovalTerms,
  CallBudget,
  Decision,
  JsonObject,
  JsonValue,
  ToolEffect,
  ToolLabels,
  ToolOrigin,
  ToolSpec,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';

/**
 * The rules for a run, as data: JSON in, JSON out. Patterns match declared ids; `*` stands for any
 * characters. Globs never match the tools of an untrusted source; those must be named exactly. A
 * call that no rule allows is denied.
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
  /** The people who answer what tools ask. @default the actor of the run */
  readonly questions?: readonly QuestionRule[];
  readonly runBudgets?: readonly RunBudget[];
  readonly callBudgets?: readonly CallBudget[];
  readonly connections?: readonly ConnectionRule[];
  /**
   * The tools of untrusted sources for which the application vouches, by declared id; only in the
   * application's own policy.
   */
  readonly vouched?: Readonly<Record<string, VouchedTool>>;
  /**
   * @default 'taint' for the application where none of its policies names a level; a policy that
   *   narrows it imposes none
   */
  readonly flow?: FlowLevel;
  /**
   * The bits from outside that are too few for an instruction. At `values` a model is told no more
   * of what others wrote, and reads the rest as references. Once a run has read more, every
   * argument of a planned call must be as it was planned, and not the decisive ones alone.
   * @default 64
   */
  readonly outsideBits?: number;
  /**
   * At the level `values`: decisive arguments that may come from a text from outside unasked, such
   * as `{ tool: 'calendar__add', argument: 'title', from: 'mail__read#/subject' }`. Never one of a
   * tool that has an effect outside or lets data out. @default none
   */
  readonly flows?: readonly FlowRule[];
  /** @default no one can trust what is from outside */
  readonly endorsements?: readonly EndorsementRule[];
  /**
   * Only records in each decision what this policy would have said. At least one other policy must
   * decide. @default false
   */
  readonly shadow?: boolean;
}

/**
 * The tools that are allowed, denied or need approval. Patterns match declared ids; `*` stands for
 * any characters.
 */
export interface PolicyGrants {
  readonly allow?: readonly string[];
  /** Wins over every `allow`. */
  readonly deny?: readonly string[];
}

/**
 * The level at which a policy watches where information comes from and where it goes: which calls
 * need approval.
 *
 * - `off`: none.
 * - `trifecta`: a call that can carry data out, once the run has read private data and untrusted
 *   content.
 * - `taint`: like `trifecta`, and every call that is not `read_only` once the run has read
 *   untrusted content, whatever the user has said.
 * - `values`: the model reads texts from outside as references, and a call is asked about where a
 *   decisive argument holds one, or after more was read as at `taint`.
 */
export type FlowLevel = 'off' | 'trifecta' | 'taint' | 'values';

/** Calls that need approval: those that meet every condition of the rule. */
export interface ApprovalRule extends ApprovalTerms {
  /** @default every tool */
  readonly tools?: readonly string[];
  /** @default every effect */
  readonly effects?: readonly ToolEffect[];
  /**
   * A JSON Schema that the canonical arguments match, e.g.
   * `{ properties: { amount: { minimum: 100 } } }`. @default any arguments
   */
  readonly arguments?: JSONSchema7;
  /** Only once the run has read untrusted content. */
  readonly tainted?: true;
  /** Shown to the approver and in the decision. */
  readonly reason?: string;
}

/** An argument that may be filled from a field of a result, whatever its origin. */
export interface FlowRule {
  /** A declared id. */
  readonly tool: string;
  readonly argument: string;
  /**
   * A declared id and the JSON pointer of a field of its results, with * for the items of a list.
   */
  readonly from: string;
}

/**
 * Values and sources from outside that people may trust when they approve a call. Where no rule
 * names something, no one can.
 */
export interface EndorsementRule {
  /** The tools whose calls it is about. @default every tool */
  readonly tools?: readonly string[];
  /**
   * Arguments whose values the approver may trust: for the rest of the run, those values decide
   * nothing that someone outside has chosen.
   */
  readonly arguments?: readonly string[];
  /**
   * Tools whose results the approver may trust for the rest of the run, by their declared ids, or
   * places of hidden texts such as `mail__read#/from`.
   */
  readonly sources?: readonly string[];
  /**
   * Lets an operator who is permitted `policy` trust a value of `arguments` in all further runs of
   * their tenant. @default false
   */
  readonly always?: boolean;
}

/** A value that people trust as an argument of a tool. */
export interface EndorsedArgument {
  /** A declared id. */
  readonly tool: string;
  readonly argument: string;
  readonly value: JsonValue;
}

/** A value or a source that people trust. */
export type Endorsed = EndorsedArgument | { readonly source: string };

/**
 * The people who answer the questions of tools. Where several rules are about a tool, a person must
 * meet the terms of each.
 */
export interface QuestionRule extends Pick<
  ApprovalTerms,
  'roles' | 'notRequester' | 'expiresAfterMs' | 'remindAfterMs' | 'escalation'
> {
  /** @default every tool */
  readonly tools?: readonly string[];
}

/** A limit on the calls of a run. Calls that were let in count, whether they succeed or not. */
export interface RunBudget {
  /** @default every tool */
  readonly tools?: readonly string[];
  readonly calls?: number;
  /** The sum over a numeric argument of those tools, named by its JSON pointer, e.g. `/amount`. */
  readonly sum?: { readonly argument: string; readonly most: number };
  /** Input and output tokens of the run so far. */
  readonly tokens?: number;
  /**
   * Cost in USD of the run's model calls so far. If an answer has neither a reported cost nor a
   * price (`prices`), the cost is unknown and the call exceeds the budget.
   */
  readonly usd?: number;
  /**
   * The treatment of a call that exceeds the budget: it is refused, or needs approval. @default
   * 'deny'
   */
  readonly beyond?: 'deny' | 'ask';
}

/**
 * The connections that tools may use. Once a policy has such a rule, every connection that no rule
 * names is refused.
 */
export interface ConnectionRule {
  readonly tools: readonly string[];
  /** Connection ids; `*` stands for any characters. */
  readonly connections: readonly string[];
}

/**
 * Properties of a tool from an untrusted source for which the application vouches. The tool's own
 * effect and labels count for nothing.
 */
export interface VouchedTool {
  /** @default 'external_side_effect' */
  readonly effect?: ToolEffect;
  /** @default 'private' */
  readonly reads?: ToolLabels['reads'];
  /** @default true */
  readonly egress?: boolean;
  /**
   * Pins the description and the schemas that a person has read, by their `schemaHash`, as
   * `ToolCatalog.describe` tells it. A tool of a source with another hash is in quarantine; one
   * that a strategy brings is not vouched for at all. @default not pinned: a run is tainted as soon
   * as its model is offered the tool
   */
  readonly schemaHash?: string;
}

/** The actor for whom a decision is made. */
export interface PolicyActor {
  readonly tenant: string;
  readonly roles: readonly string[];
  /**
   * Set if the run holds only some of the roles: then a call must be permitted with these, and with
   * all.
   */
  readonly assumed?: readonly string[];
}

/** The properties of a tool that a policy can match. */
export interface PolicyTool extends Pick<
  ToolSpec,
  'declaredId' | 'effect' | 'labels' | 'inputSchema'
> {
  readonly origin: ToolOrigin;
}

/** The subject of a decision: a tool as it is listed, or with `call` one call of it. */
export interface PolicySubject extends PolicyTool {
  readonly actor: PolicyActor;
  readonly call?: PolicyCall;
  /** The connection that the tool asks for while it runs. */
  readonly connection?: string;
}

/** The facts of a call on which a decision rests. */
export interface PolicyCall {
  /** The arguments in canonical form. */
  readonly args: JsonObject;
  readonly instanceId?: string;
  /** The arguments that hold text from outside which the model did not read. @default none */
  readonly outside?: readonly { readonly name: string; readonly from: readonly string[] }[];
  readonly flow: InformationFlow;
  readonly spent: RunSpending;
  /**
   * The things that people trust for the rest of the run. A policy counts those that its rules
   * name. @default none
   */
  readonly endorsed?: readonly Endorsed[];
  /** The values that operators trust in all runs of the tenant. @default none */
  readonly always?: readonly EndorsedArgument[];
}

/** The facts of a call by which it is one that the model has committed itself to. */
export type CommittableCall = Pick<PolicyCall, 'args' | 'instanceId' | 'outside'> & {
  readonly spent: Pick<RunSpending, 'calls'>;
  /**
   * The arguments that must be fixed: every one where the model may have read instructions, since
   * it could say in any other what they want.
   */
  readonly fixed: 'decisive' | 'every';
  /**
   * Returns whether the policy lets an argument be filled from a place, whatever someone outside
   * wrote there. @default none
   */
  readonly isNamedWay?: (argument: string, place: string) => boolean;
};

/**
 * The labels of all that the model has read so far in a run, and the origin of values in a call.
 */
export interface InformationFlow {
  readonly integrity: 'trusted' | 'untrusted';
  readonly confidentiality: 'public' | 'private';
  /** The most bits that anyone outside can have told the model; infinite once it has read text. */
  readonly outsideBits: number;
  /**
   * True while the model may commit itself to calls: it has read nothing from outside, and has not
   * done so in this turn.
   */
  readonly mayCommit: boolean;
  /**
   * Returns whether the model has committed itself to this very call before it read anything from
   * outside, and it was not made as often yet.
   */
  isCommitted(tool: PolicyTool, call: CommittableCall): boolean;
  /**
   * Returns the different words of some kind, such as ids of one form, in the user's own words and
   * in trusted results. @default none, so that no id counts as one that was given before
   */
  tracedWords?(isSuch: (word: string) => boolean): ReadonlySet<string>;
  /** Returns whether a text occurs whole, and letter by letter, in the user's own words. */
  isSaid(value: string): boolean;
  /**
   * The names under which tools were called whose results from outside the model has read. @default
   * they are not known
   */
  readonly sources?: readonly string[];
  /**
   * Returns the flow as if the results of some tools, by the names under which they were called,
   * were the application's. @default no one can trust a source
   */
  endorsing?(isEndorsed: (toolName: string) => boolean): InformationFlow;
}

/** The use of a run so far, or of a session and its account. */
export interface RunSpending {
  /** Calls that were let in. A session counts them and keeps none. */
  readonly calls: readonly {
    readonly declaredId: string;
    readonly trusted: boolean;
    readonly args: JsonObject;
  }[];
  readonly tokens: number;
  readonly usd: number;
  /** Set if some answer had no known cost: then `usd` is less than what was really spent. */
  readonly hasUnknownCost?: boolean;
  /** Counts the earlier calls that a budget covers. @default counted in `calls` */
  counted?(budget: CountedBudget): BudgetCount;
}

/** The part of a budget that says what is counted. */
export type CountedBudget = Pick<RunBudget, 'tools' | 'sum'>;

/**
 * The number of calls, and the sum over the argument that the budget names; 0 for a budget without
 * one.
 */
export interface BudgetCount {
  readonly calls: number;
  readonly sum: number;
}

/**
 * The port that decides. Listing and execution call the same method, so it is synchronous: an
 * engine whose rules live elsewhere keeps a copy of them. If it throws, the call is denied.
 *
 * @example
 * class OfficeHours extends PolicyEngine {
 *   decide({ effect }: PolicySubject): Decision {
 *     const isOpen = effect === 'read_only' || new Date().getUTCHours() < 17;
 *     return {
 *       kind: isOpen ? 'allow' : 'deny',
 *       rule: 'office hours',
 *       reason: 'Changes are made until 17:00 UTC.',
 *       policyVersion: '1',
 *     };
 *   }
 * }
 */
export abstract class PolicyEngine {
  abstract decide(subject: PolicySubject): Decision;

  /**
   * Returns the budgets that it decides by. A session counts for these alone, since it keeps no
   * list of its calls. @default none
   */
  budgets?(): readonly RunBudget[];

  /**
   * Returns the terms of the people who may answer the questions of a tool, all of which they must
   * meet. @default the actor of the run answers
   */
  answeredBy?(subject: PolicySubject): readonly ApprovalTerms[];

  /**
   * Returns the bits from outside that the models of an actor's runs may be told, which read texts
   * from outside as references alone; undefined where nothing is hidden. @default nothing is hidden
   */
  readonly hidesBeyond?: (actor: PolicyActor) => number | undefined;

  /**
   * Returns a number that grows whenever decisions may differ from before, so that runs list their
   * tools anew. @default always the same
   */
  revision?(): number;

  /**
   * Returns what of an actor it decides by whether a tool is listed, as a text: nothing else may
   * count but the tool and the `revision`. Then runs share their lists, those of other tenants with
   * the same text included. @default it is asked about each tool in each run
   */
  listedBy?(actor: PolicyActor): string;

  /**
   * Returns the properties for which the application vouches, for a tool of an untrusted source.
   * @default none
   */
  vouchedFor?(declaredId: string): VouchedTool | undefined;
}

/**
 * Ready-made policies. Each is plain data: spread one to change it.
 *
 * @example
 * ToolLoopModule.forRoot({
 *   model,
 *   policy: { ...policies.approveWrites, version: '1', deny: ['crm__deleteCustomer'] },
 * });
 */
export const policies = {
  /** Allows every trusted tool that only reads. */
  readOnly: { version: 'preset:read-only', allow: ['*'], effects: ['read_only'] },
  /** Allows every trusted tool; those that change anything require an approval. */
  approveWrites: {
    version: 'preset:approve-writes',
    allow: ['*'],
    requireApproval: [{ effects: ['state_change', 'external_side_effect'] }],
  },
  /**
   * Allows every trusted tool without approvals, wherever the information comes from. For
   * prototypes.
   */
  allowAll: { version: 'preset:allow-all', allow: ['*'], flow: 'off' },
} as const satisfies Record<string, Policy>;

/** Returns one policy or several as a list. */
export function policyList(given: Policy | readonly Policy[] | undefined): readonly Policy[] {
  if (given === undefined) return [];
  return isList(given) ? given : [given];
}

function isList(given: Policy | readonly Policy[]): given is readonly Policy[] {
  return Array.isArray(given);
}
