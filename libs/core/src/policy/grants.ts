import { isGlob, matchesGlob } from '../catalog/glob.js';
import type { CallBudget, ConnectionRule, Decision, Policy, PolicyGrants, PolicySubject } from '../protocol/policy.js';

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
