import type { ApprovalTerms, CallBudget, Decision, Endorsable } from '@toolloop/protocol';
import { isGlob, matchesGlob } from '../catalog/glob.js';
import type { PolicyStop } from '../contracts/policy-store.js';
import type {
  ApprovalRule,
  ConnectionRule,
  Policy,
  PolicyActor,
  PolicyCall,
  PolicyEngine,
  PolicyGrants,
  PolicySubject,
  QuestionRule,
} from '../contracts/policy.js';
import type { SchemaValidators } from '../schema/validators.js';

/** A decision of a rule, before the policy adds its version. */
export type Ruling = Omit<Decision, 'policyVersion' | 'shadow'>;

const NOTHING_ALLOWS: Ruling = {
  kind: 'deny',
  rule: 'default',
  reason: 'No rule of the policy allows this tool.',
};

/**
 * Decides whether an actor may call a tool: a denial anywhere wins, and a tool that no rule allows
 * is denied. This part does not depend on arguments.
 */
export function grantFor(
  { allow, deny = [], effects, ...policy }: Policy,
  subject: PolicySubject,
): Ruling {
  const grants = [{ name: '', allow, deny }, ...grantsOf(policy, subject)];
  const denied = firstMatch(grants, 'deny', subject);
  if (denied !== undefined)
    return { kind: 'deny', rule: denied, reason: 'The policy denies this tool.' };
  const allowed = firstMatch(grants, 'allow', subject);
  if (allowed === undefined) return NOTHING_ALLOWS;
  if (effects && !effects.includes(subject.effect))
    return {
      kind: 'deny',
      rule: `effects: ${effects.join(', ')}`,
      reason: `The policy allows no tool with the effect ${subject.effect}.`,
    };
  return { kind: 'allow', rule: allowed, reason: 'The policy allows this tool.' };
}

/** Returns the strictest call budget of a tool. */
export function callBudgetFor(
  budgets: readonly CallBudget[],
  subject: PolicySubject,
): Decision['callBudget'] {
  const matching = budgets.filter(({ tools }) => covers(tools, subject));
  return matching.length === 0 ? undefined : matching.reduce<CallBudget>(strictestBudget, {});
}

/** Joins two budgets: the smaller one of each limit. */
export function strictestBudget(one: CallBudget, other: CallBudget): CallBudget {
  const strictest: Record<string, number> = {};
  for (const name of BUDGETS) {
    const most = Math.min(one[name] ?? Infinity, other[name] ?? Infinity);
    if (most !== Infinity) strictest[name] = most;
  }
  return strictest;
}

const BUDGETS = [
  'maxRuntimeMs',
  'maxResultBytes',
  'maxArgsBytes',
] as const satisfies readonly (keyof CallBudget)[];

/** Denies a connection that no rule names, if there are rules. */
export function connectionRuling(
  rules: readonly ConnectionRule[] | undefined,
  subject: PolicySubject,
  connection: string,
): Ruling | undefined {
  if (!rules) return undefined;
  const isNamed = (patterns: readonly string[]): boolean =>
    patterns.some((pattern) => matchesGlob(pattern, connection));
  const isLetIn = (patterns: readonly string[]): boolean =>
    patterns.some((pattern) => matches(pattern, subject, 'allow'));
  if (rules.some(({ tools, connections }) => isLetIn(tools) && isNamed(connections)))
    return undefined;
  return {
    kind: 'deny',
    rule: 'connections',
    reason: `No rule of the policy lets this tool use the connection "${connection}".`,
  };
}

/** The properties of a call by which a stop is about it. */
export type StoppableCall = Pick<PolicySubject, 'declaredId' | 'origin' | 'actor'>;

/** Tells whether a stop is about a call. */
export function isTarget(
  { tenant, tool, source }: PolicyStop,
  { declaredId, origin, actor }: StoppableCall,
): boolean {
  if (tenant !== undefined && tenant !== actor.tenant) return false;
  return (
    (tool === undefined || tool === declaredId) &&
    (source === undefined || source === origin.source)
  );
}

/** Tells whether one of the patterns matches a tool; without patterns every tool matches. */
export function covers(
  patterns: readonly string[] | undefined,
  subject: Pick<PolicySubject, 'declaredId' | 'origin'>,
): boolean {
  return patterns?.some((pattern) => matches(pattern, subject, 'deny')) ?? true;
}

/**
 * The form of an entity tool's declared id, `customer_*_getSpend`, which matches that tool alone
 * and is not a glob.
 */
const ENTITY_TOOL = /^[a-zA-Z][a-zA-Z0-9]*_\*_[^*]+$/;

/**
 * Matches a tool with a pattern. A glob never allows a tool of an untrusted source, even one with
 * the glob as its id; to deny one it works as for any other.
 */
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
  /** The prefix of its rules, such as `tenants.acme.`. */
  readonly name: string;
}

function grantsOf(
  { tenants = {}, roles = {} }: Pick<Policy, 'tenants' | 'roles'>,
  { actor }: PolicySubject,
): NamedGrants[] {
  return [
    ...namedGrants('tenants', tenants, [actor.tenant]),
    ...namedGrants('roles', roles, actor.roles),
  ];
}

function namedGrants(
  kind: string,
  grants: Readonly<Record<string, PolicyGrants>>,
  held: readonly string[],
): NamedGrants[] {
  return held.flatMap((one) => {
    const grant = Object.hasOwn(grants, one) ? grants[one] : undefined;
    return grant ? [{ name: `${kind}.${one}.`, ...grant }] : [];
  });
}

function firstMatch(
  grants: readonly NamedGrants[],
  purpose: 'allow' | 'deny',
  subject: PolicySubject,
): string | undefined {
  for (const { name, [purpose]: patterns = [] } of grants) {
    const found = patterns.find((pattern) => matches(pattern, subject, purpose));
    if (found !== undefined) return `${name}${purpose}: ${found}`;
  }
  return undefined;
}

/** Decides whether a call requires an approval, with the terms for the approver. */
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
    approval: wanted.map(toTerms),
  };
}

function wantsApproval(
  rule: ApprovalRule,
  subject: PolicySubject,
  { args, flow }: PolicyCall,
  validators: SchemaValidators,
): boolean {
  if (!covers(rule.tools, subject)) return false;
  if (rule.effects && !rule.effects.includes(subject.effect)) return false;
  if (rule.tainted && flow.integrity === 'trusted') return false;
  // Of a copy: validation fills in defaults.
  return !rule.arguments || validators.validate(rule.arguments, structuredClone(args)).length === 0;
}

const TERMS = [
  'roles',
  'notRequester',
  'mayEdit',
  'mayRemember',
  'expiresAfterMs',
  'remindAfterMs',
  'escalation',
] as const satisfies readonly (keyof ApprovalTerms)[];

/** Returns the terms of all rules about the questions of a tool. */
export function questionTerms(
  rules: readonly QuestionRule[],
  subject: PolicySubject,
): readonly ApprovalTerms[] {
  return rules.filter(({ tools }) => covers(tools, subject)).map(toTerms);
}

/**
 * Returns the terms of the people who may answer the questions of a tool, by all policies: all of
 * them must be met.
 */
export function answeredBy(
  engines: readonly PolicyEngine[],
  subject: PolicySubject,
): readonly ApprovalTerms[] {
  return engines.flatMap((engine) => engine.answeredBy?.(subject) ?? []);
}

/**
 * Returns the fewest bits beyond which a policy hides what comes from outside; undefined where none
 * of them hides anything.
 */
export function hiddenBeyond(
  engines: readonly PolicyEngine[],
  actor: PolicyActor,
): number | undefined {
  const bits = engines.flatMap((engine) => engine.hidesBeyond?.(actor) ?? []);
  return bits.length === 0 ? undefined : Math.min(...bits);
}

/** Returns a number that grows whenever these engines may decide otherwise than before. */
export function revisionOf(engines: readonly PolicyEngine[]): number {
  return engines.reduce((sum, engine) => sum + (engine.revision?.() ?? 0), 0);
}

function toTerms(rule: ApprovalTerms): ApprovalTerms {
  return Object.fromEntries(
    TERMS.filter((name) => rule[name] !== undefined).map((name) => [name, rule[name]]),
  );
}

/**
 * Joins the rulings on a call. If several require an approval, it covers this call only, and is not
 * remembered.
 */
export function together(rulings: readonly (Ruling | undefined)[]): Ruling | undefined {
  const asking = rulings.filter((ruling) => ruling !== undefined);
  const [first, ...others] = asking;
  if (!first || others.length === 0) return first;
  const approval = (first.approval ?? []).map(forThisCallOnly);
  const told = { ...(approval.length > 0 && { approval }), ...endorsableBy(asking) };
  return { ...first, rule: asking.map(({ rule }) => rule).join(' + '), ...told };
}

/**
 * Joins what a person may trust by several rulings. Each policy counts of it what its own rules
 * name.
 */
function endorsableBy(
  rulings: readonly Pick<Decision, 'endorsable'>[],
): Pick<Decision, 'endorsable'> {
  const some = rulings.flatMap(({ endorsable }) => endorsable ?? []);
  const all = (name: keyof Endorsable): readonly string[] => [
    ...new Set(some.flatMap((one) => one[name] ?? [])),
  ];
  const joined = (['arguments', 'sources', 'always'] as const).flatMap((name) =>
    all(name).length > 0 ? [[name, all(name)] as const] : [],
  );
  return joined.length > 0 ? { endorsable: Object.fromEntries(joined) } : {};
}

function forThisCallOnly(terms: ApprovalTerms): ApprovalTerms {
  return { ...terms, mayRemember: false };
}

const SEVERITY = { deny: 2, require_approval: 1, allow: 0 } as const;

/** Returns the stricter of two decisions, with the terms and the budgets of both. */
export function stricter(first: Decision, second: Decision): Decision {
  const decision = SEVERITY[second.kind] > SEVERITY[first.kind] ? second : bothAsk(first, second);
  const shadow = [first, second].flatMap((one) => one.shadow ?? []);
  const approval = [first, second].flatMap((one) => one.approval ?? []);
  const budgets = [first, second].flatMap(({ callBudget }) => callBudget ?? []);
  if (approval.length === 0 && budgets.length === 0 && shadow.length === 0) return decision;
  return {
    ...decision,
    ...(shadow.length > 0 && { shadow }),
    callBudget: budgets.reduce(strictestBudget, {}),
    ...(approval.length > 0 && { approval }),
  };
}

/**
 * Joins two decisions that require an approval, which then covers both for as long as both stay the
 * same.
 */
function bothAsk(first: Decision, second: Decision): Decision {
  if (first.kind !== 'require_approval' || second.kind !== 'require_approval') return first;
  const names = {
    rule: `${first.rule} + ${second.rule}`,
    policyVersion: `${first.policyVersion} + ${second.policyVersion}`,
  };
  return { ...first, ...names, ...endorsableBy([first, second]) };
}

/**
 * Tells whether people who met these terms are all that other terms ask for, so that their decision
 * holds under another version of the policy, too.
 */
export function areSamePeople(
  met: readonly ApprovalTerms[],
  asked: readonly ApprovalTerms[],
): boolean {
  const known = new Set(peopleIn(met));
  return peopleIn(asked).every((people) => known.has(people));
}

/** Returns the people whom terms ask for; without terms the actor of the run. */
function peopleIn(terms: readonly ApprovalTerms[]): readonly string[] {
  return (terms.length > 0 ? terms : [{}]).map(({ roles, notRequester = false, escalation = [] }) =>
    JSON.stringify([
      roles?.toSorted(),
      notRequester,
      escalation.map((one) => one.roles.toSorted()),
    ]),
  );
}
