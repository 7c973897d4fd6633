import { isJsonList, isWebAddress, type JsonValue } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import type { FlowLevel, Policy, PolicyCall, PolicySubject } from '../../contracts/policy.js';
import type { Ruling } from '../../policy/rules.js';
import { COMMIT_ID, endorsableIn, endorsedCall, isWhollyEndorsed } from './commitments.js';

/**
 * Decides by the content that the run has read whether a call needs an approval, and denies a plan
 * that is none. Undefined if the information flow requires nothing.
 */
export function flowRuling(
  level: FlowLevel,
  policy: FlowRules,
  subject: PolicySubject,
  given: PolicyCall,
): Ruling | undefined {
  const { endorsements } = policy;
  const call = endorsements ? endorsedCall(endorsements, subject, given) : given;
  const ruling = planRuling(subject, call) ?? RULINGS[level](subject, call, policy);
  if (ruling?.kind !== 'require_approval' || !endorsements) return ruling;
  if (isWhollyEndorsed(endorsements, subject, call)) return undefined;
  const endorsable = endorsableIn(endorsements, subject, call);
  return endorsable ? { ...ruling, endorsable } : ruling;
}

/** The rules of a policy about where information comes from. */
type FlowRules = Pick<Policy, 'outsideBits' | 'flows' | 'endorsements'>;

/** The level of an application none of whose policies names one. */
export const DEFAULT_FLOW: FlowLevel = 'taint';

/**
 * Refuses a plan that would be none: its calls would be chosen by what was read, or added to those
 * that are fixed.
 */
function planRuling(
  { declaredId, origin }: PolicySubject,
  { flow }: PolicyCall,
): Ruling | undefined {
  if (declaredId !== COMMIT_ID || !origin.trusted || flow.mayCommit) return undefined;
  const reason = 'The calls of a turn are planned once, before anything from outside is read.';
  return { kind: 'deny', rule: 'plan', reason, isOverBudget: true };
}

type LevelRuling = (
  subject: PolicySubject,
  call: PolicyCall,
  policy: FlowRules,
) => Ruling | undefined;

const RULINGS: Readonly<Record<FlowLevel, LevelRuling>> = {
  off: () => undefined,
  trifecta: (subject, call) =>
    completesTrifecta(subject, call) ? ask('trifecta', LEGS) : undefined,
  taint: (subject, call, policy) => taintRuling('taint', subject, call, policy),
  values: (subject, call, policy) =>
    outsideArgumentRuling(subject, call, policy) ?? taintRuling('values', subject, call, policy),
};

const LEGS =
  'The run has read private data and untrusted content, and this tool can carry data out.';

/**
 * Tells whether a call completes the lethal trifecta: private data, untrusted content, and a way
 * out. A read of an address that the user wrote carries out only that address.
 */
function completesTrifecta(subject: PolicySubject, call: PolicyCall): boolean {
  const { integrity, confidentiality } = call.flow;
  const { egress, accepts } = subject.labels;
  if (!egress || accepts?.private || integrity === 'trusted' || confidentiality === 'public')
    return false;
  return subject.effect !== 'read_only' || !isOfSaidAddresses(subject, call);
}

/** The bits from outside that are too few for an instruction. */
export const DEFAULT_OUTSIDE_BITS = 64;

/**
 * Decides by how much someone outside can have told the model. Nothing: the call is the user's and
 * the application's. A few bits may have chosen among calls, so that one goes unasked only if the
 * model had planned what decides it. More than the budget may be an instruction, which every
 * argument could obey.
 */
function taintRuling(
  level: FlowLevel,
  subject: PolicySubject,
  call: PolicyCall,
  { outsideBits: mostBits = DEFAULT_OUTSIDE_BITS, flows }: FlowRules,
): Ruling | undefined {
  const { outsideBits, integrity } = call.flow;
  const fixed = outsideBits <= mostBits ? 'decisive' : 'every';
  const isNamedWay = namedWays(subject, flows);
  if (integrity === 'untrusted' && call.flow.isCommitted(subject, { ...call, fixed, isNamedWay }))
    return undefined;
  return taintedRuling(level, subject, call);
}

function taintedRuling(
  level: FlowLevel,
  subject: PolicySubject,
  call: PolicyCall,
): Ruling | undefined {
  const { effect, labels } = subject;
  if (completesTrifecta(subject, call)) return ask(level, LEGS);
  if (effect === 'read_only' || labels.accepts?.untrusted || call.flow.integrity === 'trusted')
    return undefined;
  return ask(level, 'The run has read untrusted content, and this tool changes things.');
}

/**
 * Decides about text that the model did not read: it may not decide what a call does to whom,
 * unless the policy names the way that it takes.
 */
function outsideArgumentRuling(
  subject: PolicySubject,
  { outside = [] }: PolicyCall,
  { flows }: Pick<Policy, 'flows'>,
): Ruling | undefined {
  const { effect, labels } = subject;
  if ((effect === 'read_only' && !labels.egress) || labels.accepts?.untrusted) return undefined;
  const isNamed = namedWays(subject, flows);
  const decided = outside.find(
    ({ name, from }) =>
      (labels.decisive?.includes(name) ?? true) && !from.every((place) => isNamed(name, place)),
  );
  return (
    decided &&
    ask(
      'values',
      `The argument "${decided.name}" holds text from outside (${decided.from.join(', ')}).`,
    )
  );
}

/**
 * Tells which arguments of a tool the policy lets be filled from which places: none of a tool that
 * has an effect outside or lets data out.
 */
function namedWays(
  { declaredId, effect, labels }: PolicySubject,
  flows: Policy['flows'] = [],
): (argument: string, from: string) => boolean {
  const mayNameWay = effect === 'state_change' && !labels.egress;
  return (argument, from) =>
    mayNameWay &&
    flows.some((one) => one.tool === declaredId && one.argument === argument && one.from === from);
}

function ask(level: FlowLevel, reason: string): Ruling {
  return { kind: 'require_approval', rule: `flow: ${level}`, reason };
}

/**
 * Tells whether a call carries out only addresses that the user wrote in full: their hosts learn no
 * more than the user wrote.
 */
function isOfSaidAddresses(subject: PolicySubject, call: PolicyCall): boolean {
  const values = valuesOf(subject, call);
  return values.length > 0 && values.every((value) => isAddress(value) && call.flow.isSaid(value));
}

function isAddress(value: string | number): value is string {
  return isWebAddress(value) && !/\s/.test(value);
}

function valuesOf(
  { inputSchema }: PolicySubject,
  { args, instanceId }: PolicyCall,
): readonly (string | number)[] {
  const values = Object.entries(args).flatMap(([name, value]) =>
    tellingValues(value, readProperty(inputSchema, name)),
  );
  return instanceId === undefined ? values : [...values, instanceId];
}

/**
 * Returns texts and numbers at any depth, including keys of objects, without those that the schema
 * itself lists.
 */
function tellingValues(value: JsonValue | undefined, schema: JSONSchema7): (string | number)[] {
  if (value === undefined || value === null || isGiven(value, schema)) return [];
  if (isJsonList(value)) return value.flatMap((item) => tellingValues(item, readItems(schema)));
  if (typeof value === 'object')
    return Object.entries(value).flatMap(([key, item]) => tellingEntry(key, item, schema));
  return typeof value === 'boolean' || value === '' ? [] : [value];
}

function tellingEntry(key: string, value: JsonValue, schema: JSONSchema7): (string | number)[] {
  const isDeclared = schema.properties !== undefined && Object.hasOwn(schema.properties, key);
  const telling = tellingValues(value, readProperty(schema, key));
  return isDeclared ? telling : [key, ...telling];
}

function isGiven(value: JsonValue, schema: JSONSchema7): boolean {
  return schema.enum !== undefined || (schema.default !== undefined && value === schema.default);
}

/** Reads the schema of a property; one that lets everything through if none is declared. */
function readProperty({ properties = {} }: JSONSchema7, name: string): JSONSchema7 {
  const property: JSONSchema7Definition | undefined = Object.hasOwn(properties, name)
    ? properties[name]
    : undefined;
  return typeof property === 'object' ? property : {};
}

/** Reads the schema of a list's items; one that lets everything through if none is declared. */
function readItems({ items }: JSONSchema7): JSONSchema7 {
  return typeof items === 'object' && !Array.isArray(items) ? items : {};
}
