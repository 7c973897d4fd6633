import type {
  ApprovalTerms,
  CallBudget,
  Decision,
  Endorsable,
  JsonObject,
} from '@toolloop/protocol';
import { isGlob, matchesGlob } from '../catalog/tool-selection.js';
import type { DirectiveApproval } from '../contracts/directive.js';
import type { PendingApproval } from '../contracts/pending.js';
import type {
  ApprovalRule,
  ConnectionRule,
  Endorsed,
  Policy,
  PolicyActor,
  PolicyCall,
  PolicyEngine,
  PolicyGrants,
  PolicySubject,
  QuestionRule,
} from '../contracts/policy.js';
import type { PolicyStop } from '../contracts/policy-store.js';
import { list, object, optional, pair, partly, TEXT } from '../schema/saved-form.js';
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

/** The way a run handles a call that requires an approval. */
export type ApprovalMode = 'suspend' | 'wait' | 'deny';

/**
 * The approvals of one run, by the calls that requested them, and the decisions that cover more
 * than one call.
 */
export class RunApprovals {
  private readonly remembered: Map<string, string>;
  /**
   * The things that people trust for the rest of the run, and the approval in which each said so.
   */
  readonly endorsed: RunEndorsement[];
  private ofCalls: ApprovalsOfCalls | undefined;

  constructor(
    readonly mode: ApprovalMode,
    saved: SavedApprovals = NO_APPROVALS,
    /** The approval of the directive that is being performed. */
    private readonly given?: DirectiveApproval,
    /**
     * The approvals of a session, whose decisions that cover more than one call hold for all of its
     * calls.
     */
    session?: RunApprovals,
    /** Those of the run around a sub-run: what people trust, they trust in both. */
    around = session,
  ) {
    const { asked, letIn, repeated } = saved;
    if (saved !== NO_APPROVALS)
      this.ofCalls = { asked: new Map(asked), letIn: new Set(letIn), repeated: new Map(repeated) };
    this.remembered = session?.remembered ?? new Map(saved.remembered);
    this.endorsed = around?.endorsed ?? [];
    for (const one of saved.endorsed ?? []) this.trust(one);
  }

  /**
   * Trusts values of a call, and sources, as far as its approver was offered that and has said so.
   */
  endorse({ declaredId, form, args }: EndorsedCall, approval: PendingApproval): void {
    const { id, request, answer } = approval;
    const chosen = (name: 'arguments' | 'sources'): readonly string[] =>
      (answer?.endorse?.[name] ?? []).filter((one) => request.mayEndorse?.[name]?.includes(one));
    for (const argument of chosen('arguments')) {
      const value = args[argument];
      if (value !== undefined)
        this.trust({ approvalId: id, endorsed: { tool: declaredId, argument, value }, form });
    }
    for (const source of chosen('sources')) this.trust({ approvalId: id, endorsed: { source } });
  }

  private trust(one: RunEndorsement): void {
    const isKnown = this.endorsed.some((other) => JSON.stringify(other) === JSON.stringify(one));
    if (!isKnown) this.endorsed.push(one);
  }

  /** Finds the approval that a call requested. */
  askedBy(toolCallId: string): string | undefined {
    return this.ofCalls?.asked.get(toolCallId);
  }

  ask(toolCallId: string, approvalId: string): void {
    this.calls.asked.set(toolCallId, approvalId);
  }

  /**
   * Tells whether a call was let in, and then waited for a value: an approval that was used for it
   * holds.
   */
  hasLetIn(toolCallId: string): boolean {
    return this.ofCalls?.letIn.has(toolCallId) === true;
  }

  letIn(toolCallId: string): void {
    this.calls.letIn.add(toolCallId);
  }

  /** Finds the approval by which a call of unknown outcome may be made again. */
  repeatOf(toolCallId: string): string | undefined {
    return this.ofCalls?.repeated.get(toolCallId);
  }

  askRepeat(toolCallId: string, approvalId: string): void {
    this.calls.repeated.set(toolCallId, approvalId);
  }

  /** Made when something is first kept: most calls need no approval. */
  private get calls(): ApprovalsOfCalls {
    return (this.ofCalls ??= { asked: new Map(), letIn: new Set(), repeated: new Map() });
  }

  /**
   * Finds the approval whose answer covers every call of a tool under a rule, as long as the tool
   * is as it was.
   */
  standingFor({ declaredId, rule, form }: CoveredCalls): string | undefined {
    return this.remembered.get(JSON.stringify([declaredId, rule, form]));
  }

  /**
   * Finds the last approval that covered every call of the tool under the rule while the tool was
   * another.
   */
  stoodFor({ declaredId, rule }: CoveredCalls): string | undefined {
    const prefix = JSON.stringify([declaredId, rule]).slice(0, -1);
    return [...this.remembered].findLast(([key]) => key.startsWith(prefix))?.[1];
  }

  remember({ declaredId, rule, form }: CoveredCalls, approvalId: string): void {
    this.remembered.set(JSON.stringify([declaredId, rule, form]), approvalId);
  }

  /**
   * Tells whether the approval of the directive is by all whom policy asks for now, and about the
   * tool as it is.
   */
  covers({ approval = [] }: Decision, form: string): boolean {
    return (
      this.given !== undefined &&
      !this.isOfAnother(form) &&
      areSamePeople(this.given.terms, approval)
    );
  }

  /** Tells whether the approval of the directive is about the tool in another form. */
  isOfAnother(form: string): boolean {
    return this.given?.form !== undefined && this.given.form !== form;
  }

  save(): SavedApprovals {
    const { asked, letIn, repeated } = this.calls;
    const more = {
      ...(letIn.size > 0 && { letIn: [...letIn] }),
      ...(this.endorsed.length > 0 && { endorsed: [...this.endorsed] }),
    };
    return {
      asked: [...asked],
      repeated: [...repeated],
      remembered: [...this.remembered],
      ...more,
    };
  }
}

/** The calls that one decision covers: of a tool in one form, about which one rule asks. */
export interface CoveredCalls {
  readonly declaredId: string;
  readonly rule: string;
  /** The hash of the form of the tool. */
  readonly form: string;
}

/** The questions about the single calls of a run, and the answers to them. */
interface ApprovalsOfCalls {
  readonly asked: Map<string, string>;
  readonly letIn: Set<string>;
  readonly repeated: Map<string, string>;
}

/** A call that its approver let in, trusting something of it. */
interface EndorsedCall extends Pick<CoveredCalls, 'declaredId' | 'form'> {
  readonly args: JsonObject;
}

/**
 * A value or a source that a person trusts for the rest of a run, and the approval in which the
 * person said so.
 */
export interface RunEndorsement {
  readonly approvalId: string;
  readonly endorsed: Endorsed;
  /** The hash of the form of the tool in whose arguments a value is trusted. @default any form */
  readonly form?: string;
}

/** The approvals of a run as JSON. */
export interface SavedApprovals {
  readonly asked: readonly (readonly [string, string])[];
  readonly repeated: readonly (readonly [string, string])[];
  readonly remembered: readonly (readonly [string, string])[];
  /** @default none */
  readonly letIn?: readonly string[];
  /** @default nothing */
  readonly endorsed?: readonly RunEndorsement[];
}

const NO_APPROVALS: SavedApprovals = { asked: [], repeated: [], remembered: [] };

export const SAVED_APPROVALS = object<SavedApprovals>({
  asked: list(pair(TEXT)),
  repeated: list(pair(TEXT)),
  remembered: list(pair(TEXT)),
  letIn: optional(list(TEXT)),
  endorsed: optional(
    list(
      object<RunEndorsement>({
        approvalId: TEXT,
        endorsed: partly<Endorsed>(),
        form: optional(TEXT),
      }),
    ),
  ),
});
