import type { ApprovalTerms, CallBudget, Decision, JsonObject } from '@toolloop/protocol';
import { isGlob, matchesGlob } from '../catalog/tool-selection.js';
import type {
  ApprovalRule,
  ConnectionRule,
  Policy,
  PolicyCall,
  PolicyGrants,
  PolicySubject,
  RunBudget,
  RunSpending,
} from '../contracts/policy.js';
import { FLAG, type Form, list, object, partly, TEXT } from '../schema/saved-form.js';
import type { SchemaValidators } from '../schema/validators.js';

/** What a rule says, before the policy puts its version to it. */
export type Ruling = Omit<Decision, 'policyVersion' | 'shadow'>;

const NOTHING_ALLOWS: Ruling = { kind: 'deny', rule: 'default', reason: 'No rule of the policy allows this tool.' };

/** Who may call what: a denial anywhere wins, what nothing allows is denied. The part of a decision that no argument changes. */
export function grantFor({ allow, deny = [], effects, ...policy }: Policy, subject: PolicySubject): Ruling {
  const grants = [{ name: '', allow, deny }, ...grantsOf(policy, subject)];
  const denied = firstMatch(grants, 'deny', subject);
  if (denied !== undefined) return { kind: 'deny', rule: denied, reason: 'The policy denies this tool.' };
  const allowed = firstMatch(grants, 'allow', subject);
  if (allowed === undefined) return NOTHING_ALLOWS;
  if (effects && !effects.includes(subject.effect))
    return { kind: 'deny', rule: `effects: ${effects.join(', ')}`, reason: `The policy allows no tool with the effect ${subject.effect}.` };
  return { kind: 'allow', rule: allowed, reason: 'The policy allows this tool.' };
}

/** The strictest of what the policy says a call of the tool may use. */
export function callBudgetFor(budgets: readonly CallBudget[], subject: PolicySubject): Decision['callBudget'] {
  const matching = budgets.filter(({ tools }) => covers(tools, subject));
  return matching.length === 0 ? undefined : matching.reduce<CallBudget>(strictestBudget, {});
}

/** Of each limit the smaller one. */
export function strictestBudget(one: CallBudget, other: CallBudget): CallBudget {
  const strictest: Record<string, number> = {};
  for (const name of BUDGETS) {
    const most = Math.min(one[name] ?? Infinity, other[name] ?? Infinity);
    if (most !== Infinity) strictest[name] = most;
  }
  return strictest;
}

const BUDGETS = ['maxRuntimeMs', 'maxResultBytes', 'maxArgsBytes'] as const satisfies readonly (keyof CallBudget)[];

/** A connection that no rule names, once there is a rule. */
export function connectionRuling(
  rules: readonly ConnectionRule[] | undefined,
  subject: PolicySubject,
  connection: string,
): Ruling | undefined {
  if (!rules) return undefined;
  const isNamed = (patterns: readonly string[]): boolean => patterns.some((pattern) => matchesGlob(pattern, connection));
  const isLetIn = (patterns: readonly string[]): boolean => patterns.some((pattern) => matches(pattern, subject, 'allow'));
  if (rules.some(({ tools, connections }) => isLetIn(tools) && isNamed(connections))) return undefined;
  return { kind: 'deny', rule: 'connections', reason: `No rule of the policy lets this tool use the connection "${connection}".` };
}

/** Whether one of the patterns names the tool; every tool where there are none. */
export function covers(patterns: readonly string[] | undefined, subject: Pick<PolicySubject, 'declaredId' | 'origin'>): boolean {
  return patterns?.some((pattern) => matches(pattern, subject, 'deny')) ?? true;
}

/** The declared id of an entity tool, `customer_*_getSpend`, which names that tool and no other. */
const ENTITY_TOOL = /^[a-zA-Z][a-zA-Z0-9]*_\*_[^*]+$/;

/** A glob never lets an untrusted source's tool in, even one that is called like the glob; to keep one out it works as for any other. */
export function matches(
  pattern: string,
  { declaredId, origin }: Pick<PolicySubject, 'declaredId' | 'origin'>,
  purpose: 'allow' | 'deny',
): boolean {
  if (!isGlob(pattern) || ENTITY_TOOL.test(pattern))
    return pattern === declaredId && (origin.trusted || !isGlob(pattern) || purpose === 'deny');
  return (origin.trusted || purpose === 'deny') && matchesGlob(pattern, declaredId);
}

interface NamedGrants extends PolicyGrants {
  /** `tenants.acme.`, as rules are told. */
  readonly name: string;
}

function grantsOf({ tenants = {}, roles = {} }: Pick<Policy, 'tenants' | 'roles'>, { actor }: PolicySubject): NamedGrants[] {
  return [...namedGrants('tenants', tenants, [actor.tenant]), ...namedGrants('roles', roles, actor.roles)];
}

function namedGrants(kind: string, grants: Readonly<Record<string, PolicyGrants>>, held: readonly string[]): NamedGrants[] {
  return held.flatMap((one) => {
    const grant = Object.hasOwn(grants, one) ? grants[one] : undefined;
    return grant ? [{ name: `${kind}.${one}.`, ...grant }] : [];
  });
}

function firstMatch(grants: readonly NamedGrants[], purpose: 'allow' | 'deny', subject: PolicySubject): string | undefined {
  for (const { name, [purpose]: patterns = [] } of grants) {
    const found = patterns.find((pattern) => matches(pattern, subject, purpose));
    if (found !== undefined) return `${name}${purpose}: ${found}`;
  }
  return undefined;
}

/** What the rules that want a person's yes for this call ask of whoever gives it. */
export function approvalRuling(
  rules: readonly ApprovalRule[],
  subject: PolicySubject,
  call: PolicyCall,
  validators: SchemaValidators,
): Ruling | undefined {
  const wanted = rules.filter((rule) => wantsApproval(rule, subject, call, validators));
  const [first] = wanted;
  if (!first) return undefined;
  const { reason = `A tool with the effect ${subject.effect} needs a person's approval.` } = first;
  return {
    kind: 'require_approval',
    rule: `requireApproval[${wanted.map((rule) => rules.indexOf(rule)).join(',')}]`,
    reason,
    approval: wanted.map(termsOf),
  };
}

function wantsApproval(rule: ApprovalRule, subject: PolicySubject, { args, flow }: PolicyCall, validators: SchemaValidators): boolean {
  if (!covers(rule.tools, subject)) return false;
  if (rule.effects && !rule.effects.includes(subject.effect)) return false;
  if (rule.tainted && flow.integrity === 'trusted') return false;
  // Of a copy: validation fills in defaults.
  return !rule.arguments || validators.validate(rule.arguments, structuredClone(args)).length === 0;
}

const TERMS = ['roles', 'notRequester', 'mayEdit', 'mayRemember', 'expiresAfterMs'] as const satisfies readonly (keyof ApprovalTerms)[];

function termsOf(rule: ApprovalRule): ApprovalTerms {
  return Object.fromEntries(TERMS.filter((name) => rule[name] !== undefined).map((name) => [name, rule[name]]));
}

/** The first budget that this call would go beyond. */
export function budgetRuling(budgets: readonly RunBudget[], subject: PolicySubject, call: PolicyCall): Ruling | undefined {
  let asking: Ruling | undefined;
  for (const [index, budget] of budgets.entries()) {
    const exceeded = covers(budget.tools, subject) ? exceededBy(budget, call) : undefined;
    if (exceeded === undefined) continue;
    const rule = `runBudgets[${index}]`;
    if (budget.beyond !== 'ask') return { kind: 'deny', rule, reason: exceeded, isOverBudget: true };
    asking ??= { kind: 'require_approval', rule, reason: exceeded };
  }
  return asking;
}

/** Written so that a total which is no number goes beyond as well. */
function exceededBy({ tools, calls, sum, tokens, usd }: RunBudget, { args, spent }: PolicyCall): string | undefined {
  const earlier = spent.calls.filter((one) => covers(tools, { declaredId: one.declaredId, origin: { source: '', trusted: one.trusted } }));
  if (calls !== undefined && !(earlier.length < calls)) return `A run may make ${calls} such calls, and they are used up.`;
  if (sum) {
    const amount = numberAt(args, sum.argument);
    const total = earlier.reduce((before, one) => before + numberAt(one.args, sum.argument), amount);
    // The total is not told: the argument may be one that nobody may see.
    if (!(total <= sum.most)) return `The sum over ${sum.argument} would go beyond ${sum.most}, which a run may reach.`;
  }
  if (tokens !== undefined && !(spent.tokens <= tokens)) return `The run has used ${spent.tokens} tokens, and may use ${tokens}.`;
  return usd === undefined ? undefined : costBeyond(usd, spent);
}

function costBeyond(most: number, { usd, hasUnknownCost }: RunSpending): string | undefined {
  if (hasUnknownCost) return `What the run has cost is not known, and it may cost ${most} USD.`;
  return usd <= most ? undefined : `The run has cost ${usd} USD, and may cost ${most}.`;
}

/** Absolute: a negative amount would make room for more. What is no number counts as nothing. */
function numberAt(args: JsonObject, pointer: string): number {
  let value: unknown = args;
  for (const part of pointer.split('/').slice(1)) value = memberOf(value, part.replaceAll('~1', '/').replaceAll('~0', '~'));
  return typeof value === 'number' ? Math.abs(value) : 0;
}

function memberOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined;
}

export const SAVED_CALLS: Form<RunSpending['calls']> = list(object({ declaredId: TEXT, trusted: FLAG, args: partly<JsonObject>() }));

/** What one run has used up. Filled as calls are let in, so that parallel ones count as well. */
export class SpendingLedger implements RunSpending {
  readonly calls: RunSpending['calls'][number][];
  tokens = 0;
  usd = 0;
  hasUnknownCost = false;
  private taken: number;

  constructor(calls: RunSpending['calls'] = []) {
    this.calls = [...calls];
    this.taken = calls.length;
  }

  /** The calls that were let in since they were taken last, by whoever shares the ledger: each of them is written down once. */
  takeNew(): RunSpending['calls'] {
    const added = this.calls.slice(this.taken);
    this.taken = this.calls.length;
    return added;
  }

  /** What was written down already stays: it counts too much rather than too little. */
  takeBack(call: RunSpending['calls'][number]): void {
    const index = this.calls.indexOf(call, this.taken);
    if (index !== -1) this.calls.splice(index, 1);
  }
}
