import {
  type ApprovalTerms,
  type Finding,
  isObject,
  isRecord,
  TOOL_EFFECTS,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { AnnouncedTools } from '../catalog/announced-tools.js';
import { closestTo, closestTools } from '../catalog/closest-tools.js';
import { isGlob, matchesGlob } from '../catalog/glob.js';
import { EXPIRES_AFTER_MS } from '../contracts/pending.js';
import type {
  ApprovalRule,
  EndorsementRule,
  FlowRule,
  Policy,
  PolicyTool,
} from '../contracts/policy.js';
import { droppedLevelFinding } from '../plugins/flow/dropped-levels.js';
import { toJson } from '../schema/canonical-json.js';
import { SchemaValidators } from '../schema/validators.js';
import { covers } from './rules.js';

/**
 * Finds the problems of a policy: its shape, ids without a tool, and arguments that no tool has.
 * `at` is the place of the policy.
 */
export function policyFindings(
  policy: Policy,
  at: string,
  surroundings: PolicySurroundings,
): Finding[] {
  const misshapen = policyShapeFindings(policy, at);
  const sound = misshapen.length === 0 ? policy : soundPart(policy);
  const { runBudgets, callBudgets } = isRecord(policy) ? policy : {};
  return [
    ...misshapen,
    ...(sound ? soundFindings(sound, at, surroundings) : []),
    // as they are given: a limit that is misspelt is told as such
    ...emptyBudgets(runBudgets, `${at}/runBudgets`),
    ...emptyBudgets(callBudgets, `${at}/callBudgets`),
  ];
}

/** The surroundings that a policy is checked against. */
export interface PolicySurroundings {
  readonly tools: readonly PolicyTool[];
  /** The tools that may still come, about which nothing else is known. */
  readonly announced: AnnouncedTools;
  readonly validators: SchemaValidators;
  /**
   * The author of the policy. That of the application alone can vouch for a tool, and one that a
   * tenant's operator wrote must not block the process. @default 'request'
   */
  readonly author?: 'application' | 'request' | 'tenant';
}

/** The author of a policy, and the tools that may still come. */
export type PolicyPlace = Partial<Pick<PolicySurroundings, 'author' | 'announced'>>;

function soundFindings(
  policy: Policy,
  at: string,
  { tools, announced, validators, author = 'request' }: PolicySurroundings,
): Finding[] {
  const {
    requireApproval = [],
    questions = [],
    runBudgets = [],
    vouched = {},
    flows = [],
    endorsements = [],
  } = policy;
  const isKnown = ({ tools: patterns = [] }: { readonly tools?: readonly string[] }): boolean =>
    !patterns.some((pattern) => announced.has(pattern));
  return [
    ...patternsOf(policy).flatMap((pattern) =>
      announced.has(pattern) ? [] : patternFindings(pattern, at, tools),
    ),
    ...allowedBy(policy).flatMap((pattern) => untrustedFindings(pattern, at, { tools, announced })),
    ...requireApproval.flatMap((rule, index) =>
      isKnown(rule)
        ? predicateFindings(rule, `${at}/requireApproval/${index}`, { tools, validators, author })
        : [],
    ),
    ...requireApproval.flatMap((rule, index) =>
      lateEscalationFindings(rule, `${at}/requireApproval/${index}`),
    ),
    ...questions.flatMap((rule, index) => lateEscalationFindings(rule, `${at}/questions/${index}`)),
    ...(author === 'application' || policy.vouched === undefined
      ? []
      : [{ at: `${at}/vouched`, ...ONLY_THE_APPLICATION }]),
    ...Object.keys(vouched).flatMap((id) =>
      announced.has(id) && !isGlob(id) ? [] : vouchedFindings(id, `${at}/vouched`, tools),
    ),
    ...flows.flatMap((rule, index) =>
      flowRuleFindings(rule, `${at}/flows/${index}`, { tools, announced }),
    ),
    ...endorsements.flatMap((rule, index) =>
      endorsementFindings(rule, `${at}/endorsements/${index}`, { tools, announced }),
    ),
    ...runBudgets.flatMap((budget, index) =>
      budget.sum && isKnown(budget)
        ? sumFindings(budget.sum.argument, budget.tools, `${at}/runBudgets/${index}`, tools)
        : [],
    ),
  ];
}

/**
 * Returns the part of a policy whose form is right, so that what is wrong with its ids is told at
 * once; undefined where there is none.
 */
function soundPart(policy: unknown): Policy | undefined {
  const part: unknown = isRecord(policy) ? copyOf(policy) : undefined;
  for (let round = 0; round < MOST_DROPPED; round += 1) {
    if (isPolicy(part)) return part;
    const [problem] = form.validate(POLICY_SCHEMA, part);
    if (problem) drop(part, problem.pointer.split('/').slice(1).map(unescaped));
  }
  return undefined;
}

const MOST_DROPPED = 100;

function copyOf(policy: object): unknown {
  try {
    return toJson(policy);
  } catch {
    return undefined; // it contains itself
  }
}

function isPolicy(value: unknown): value is Policy {
  return form.validate(POLICY_SCHEMA, value).length === 0;
}

/**
 * Takes a value out of its container. Where it is missing a list of patterns is empty, and anything
 * else takes its container with it.
 */
function drop(root: unknown, path: readonly string[]): void {
  const key = path.at(-1) ?? '';
  const container = path
    .slice(0, -1)
    .reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), root);
  if (Array.isArray(container)) container.splice(Number(key), 1);
  else if (isObject(container) && key in container) Reflect.deleteProperty(container, key);
  else if (isObject(container) && PATTERN_LISTS.has(key)) Reflect.set(container, key, []);
  else if (path.length > 0) drop(root, path.slice(0, -1));
}

const PATTERN_LISTS = new Set(['allow', 'tools', 'connections']);

/** Finds what is no policy, whatever tools there are. */
export function policyShapeFindings(policy: unknown, at: string): Finding[] {
  const dropped = droppedLevelFinding(policy, at);
  const findings = form.validate(POLICY_SCHEMA, policy).map(({ pointer, message }) => ({
    at: `${at}${pointer}`,
    problem: message.replace(/^unknown argument /, 'unknown field '), // the words of a call
    remedy: 'See the type Policy for the fields and their values.',
  }));
  return dropped ? [dropped, ...findings.filter((one) => one.at !== dropped.at)] : findings;
}

function patternsOf({ allow, deny = [], tenants = {}, roles = {}, ...rules }: Policy): string[] {
  const {
    requireApproval = [],
    questions = [],
    runBudgets = [],
    callBudgets = [],
    connections = [],
    endorsements = [],
  } = rules;
  const ruled = [
    ...requireApproval,
    ...questions,
    ...runBudgets,
    ...callBudgets,
    ...connections,
    ...endorsements,
  ];
  const named = ruled.flatMap(({ tools = [] }) => tools);
  const grants = [...Object.values(tenants), ...Object.values(roles)];
  return [
    ...allow,
    ...deny,
    ...grants.flatMap((grant) => (grant.allow ?? []).concat(grant.deny ?? [])),
    ...named,
  ];
}

/** Returns every pattern that allows tools, for any tenant and role. */
export function allowedBy({ allow, tenants = {}, roles = {} }: Policy): string[] {
  return [
    ...allow,
    ...[...Object.values(tenants), ...Object.values(roles)].flatMap((grant) => grant.allow ?? []),
  ];
}

function patternFindings(pattern: string, at: string, tools: readonly PolicyTool[]): Finding[] {
  const ids = tools.map(({ declaredId }) => declaredId);
  const reads = new Set(
    tools.filter(({ effect }) => effect === 'read_only').map(({ declaredId }) => declaredId),
  );
  if (
    pattern === '*' ||
    ids.some((id) => id === pattern || (isGlob(pattern) && matchesGlob(pattern, id)))
  )
    return [];
  return [
    {
      at,
      problem: `The policy names "${pattern}", and no tool has such an id.`,
      remedy:
        didYouMean(closestTools(pattern, ids, { isRead: (id) => reads.has(id) })) ??
        'Name a tool of the catalog, or remove it.',
    },
  ];
}

/** Finds globs that match untrusted tools only: they allow nothing, which must be a mistake. */
function untrustedFindings(
  pattern: string,
  at: string,
  { tools, announced }: Pick<PolicySurroundings, 'tools' | 'announced'>,
): Finding[] {
  if (pattern === '*' || !isGlob(pattern)) return [];
  const matching = tools.filter(({ declaredId }) => matchesGlob(pattern, declaredId));
  const isOfStranger = announced.sourceOf(pattern)?.trusted === false;
  if (matching.some(({ origin }) => origin.trusted) || (matching.length === 0 && !isOfStranger))
    return [];
  const ids = matching.map(({ declaredId }) => `"${declaredId}"`).join(', ');
  return [
    {
      at,
      problem: `The policy allows "${pattern}", which matches only tools of untrusted sources, and no glob can allow those.`,
      remedy: isOfStranger
        ? 'Name each tool exactly. Its source need not have answered for that.'
        : `Name each exactly: ${ids}.`,
    },
  ];
}

const ONLY_THE_APPLICATION = {
  problem: 'The policy vouches for tools, which only the policy of the application can do.',
  remedy: 'Move it into ToolLoopModule.forRoot({ policy: { vouched } }).',
} as const;

/** Finds ids in `vouched` without a tool, or of a trusted tool: they would have no effect. */
function vouchedFindings(id: string, at: string, tools: readonly PolicyTool[]): Finding[] {
  const tool = tools.find(({ declaredId }) => declaredId === id);
  if (tool && !tool.origin.trusted) return [];
  if (tool)
    return [
      {
        at,
        problem: `The policy vouches for "${id}", whose source is trusted.`,
        remedy: 'Declare its effect and its labels where the tool is declared.',
      },
    ];
  const ids = tools.filter(({ origin }) => !origin.trusted).map(({ declaredId }) => declaredId);
  const remedy =
    didYouMean(closestTools(id, ids)) ??
    'Name a tool of an untrusted source exactly, or remove it.';
  return [{ at, problem: `The policy vouches for "${id}", and no tool has this id.`, remedy }];
}

/**
 * Finds ways for texts from outside that none will ever take, since no tool has such an id or
 * argument.
 */
function flowRuleFindings(
  { tool: into, argument, from }: FlowRule,
  at: string,
  { tools, announced }: Pick<PolicySurroundings, 'tools' | 'announced'>,
): Finding[] {
  const ids = new Set(tools.map(({ declaredId }) => declaredId));
  const named = [into, from.split('#', 1).join('')];
  const unknown = named.flatMap((id) =>
    ids.has(id) || announced.has(id) ? [] : patternFindings(id, at, tools),
  );
  const tool = tools.find(({ declaredId }) => declaredId === into);
  return tool ? [...unknown, ...argumentFindings([argument], [into], at, [tool])] : unknown;
}

/**
 * Finds rules by which no one could trust anything: without arguments and sources, or about some
 * that there are not.
 */
function endorsementFindings(
  { tools: patterns, arguments: names = [], sources = [], always }: EndorsementRule,
  at: string,
  { tools, announced }: Pick<PolicySurroundings, 'tools' | 'announced'>,
): Finding[] {
  const lacks = names.length === 0 && (always || sources.length === 0);
  const remedy =
    'Name the `arguments` whose values people may trust, or for the rest of a run the `sources`.';
  const known = sources
    .map((source) => source.split('#', 1).join(''))
    .filter((id) => !announced.has(id));
  return [
    ...(lacks ? [{ at, problem: 'The rule lets no one trust anything.', remedy }] : []),
    ...known.flatMap((id) => patternFindings(id, `${at}/sources`, tools)),
    ...(patterns?.some((pattern) => announced.has(pattern))
      ? []
      : argumentFindings(names, patterns, `${at}/arguments`, tools)),
  ];
}

function predicateFindings(
  { arguments: schema, tools: patterns }: ApprovalRule,
  at: string,
  known: Omit<PolicySurroundings, 'announced'>,
): Finding[] {
  if (!schema) return [];
  if (known.author === 'tenant') known.validators.distrust(schema);
  const problem = known.validators.problemWith(schema);
  if (problem !== undefined)
    return [
      {
        at: `${at}/arguments`,
        problem: `This JSON Schema cannot be used: ${problem}.`,
        remedy: 'Correct the JSON Schema 7 for the arguments.',
      },
    ];
  const names = [...Object.keys(schema.properties ?? {}), ...(schema.required ?? [])];
  const unapplied = known.validators
    .unappliedPatterns(schema)
    .map((pattern) => unboundedPattern(pattern, `${at}/arguments`));
  return [
    ...unapplied,
    ...argumentFindings([...new Set(names)], patterns, `${at}/arguments`, known.tools),
  ];
}

function unboundedPattern(pattern: string, at: string): Finding {
  return {
    at,
    problem: `The pattern ${JSON.stringify(pattern)} cannot be tried in a time that grows with the text alone, so it could block the process.`,
    remedy: 'Write it without look-around and back references, and give at most 50 patterns.',
  };
}

/** Finds rules about arguments that no tool has: they would silently never apply. */
function argumentFindings(
  names: readonly string[],
  patterns: readonly string[] | undefined,
  at: string,
  tools: readonly PolicyTool[],
): Finding[] {
  const known = new Set(
    tools
      .filter((tool) => covers(patterns, tool))
      .flatMap(({ inputSchema }) => argumentNames(inputSchema)),
  );
  return names
    .filter((name) => !known.has(name))
    .map((name) => ({
      at,
      problem: `None of the tools of this rule has an argument "${name}".`,
      remedy:
        didYouMean(closestTo(name, known)) ?? 'Name an argument of the tools, or remove the rule.',
    }));
}

/** Finds escalations to people who could not answer any more. */
function lateEscalationFindings(
  { escalation = [], expiresAfterMs = EXPIRES_AFTER_MS }: ApprovalTerms,
  at: string,
): Finding[] {
  return escalation.flatMap(({ afterMs }, index) =>
    afterMs < expiresAfterMs
      ? []
      : [
          {
            at: `${at}/escalation/${index}`,
            problem: `It is after ${afterMs} ms, and what is asked expires after ${expiresAfterMs} ms: these people would never be asked.`,
            remedy: 'Give a smaller afterMs, or a larger expiresAfterMs.',
          },
        ],
  );
}

/** Finds budgets without a limit, which look like protection. */
function emptyBudgets(given: unknown, at: string): Finding[] {
  const budgets: readonly unknown[] = Array.isArray(given) ? given : [];
  return budgets.flatMap((budget, index) => {
    if (
      !isRecord(budget) ||
      Object.keys(budget).some((name) => name !== 'tools' && name !== 'beyond')
    )
      return [];
    return [
      {
        at: `${at}/${index}`,
        problem: 'The budget limits nothing.',
        remedy: 'Give it a limit, or remove it.',
      },
    ];
  });
}

/** Finds sums over arguments that are not numbers: they would stay at 0. */
function sumFindings(
  argument: string,
  patterns: readonly string[] | undefined,
  at: string,
  tools: readonly PolicyTool[],
): Finding[] {
  const name = topOf(argument);
  const missing = argumentFindings([name], patterns, at, tools);
  if (missing.length > 0 || argument.split('/').length > 2) return missing;
  const types = tools
    .filter((tool) => covers(patterns, tool))
    .map(({ inputSchema }) => propertyType(inputSchema, name));
  if (types.some((type) => type?.includes('number') || type?.includes('integer'))) return [];
  return [
    {
      at,
      problem: `The argument "${name}" is not a number, so it cannot be summed.`,
      remedy: 'Name an argument that is a number.',
    },
  ];
}

/**
 * Reads the types of an argument; undefined if the schema has no type, or the tool no such
 * argument.
 */
function propertyType(
  { properties = {} }: JSONSchema7,
  name: string,
): readonly string[] | undefined {
  const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return typeof property === 'object' && property.type !== undefined
    ? [property.type].flat()
    : undefined;
}

function argumentNames({ properties = {} }: JSONSchema7): string[] {
  return Object.keys(properties);
}

function topOf(pointer: string): string {
  return unescaped(pointer.split('/')[1] ?? '');
}

function unescaped(segment: string): string {
  return segment.replaceAll('~1', '/').replaceAll('~0', '~');
}

function didYouMean(closest: readonly string[]): string | undefined {
  return closest.length > 0
    ? `Did you mean ${closest.map((name) => `"${name}"`).join(' or ')}?`
    : undefined;
}

const patterns: JSONSchema7 = { type: 'array', items: { type: 'string', minLength: 1 } };
const effects: JSONSchema7 = { type: 'array', items: { type: 'string', enum: [...TOOL_EFFECTS] } };
const flag: JSONSchema7 = { type: 'boolean' };
const amount: JSONSchema7 = { type: 'number', minimum: 0 };
/** A year at most: beyond, the time at which something expires is no date any more. */
const duration: JSONSchema7 = { ...amount, maximum: 31_622_400_000 };
const text: JSONSchema7 = { type: 'string', minLength: 1 };
const pointer: JSONSchema7 = { type: 'string', pattern: '^/.' };

function record(
  properties: Readonly<Record<string, JSONSchema7>>,
  required: readonly string[] = [],
): JSONSchema7 {
  return { type: 'object', properties, required: [...required], additionalProperties: false };
}

const grants = record({ allow: patterns, deny: patterns });

const escalation: JSONSchema7 = {
  type: 'array',
  items: record({ afterMs: duration, roles: { type: 'array', items: text, minItems: 1 } }, [
    'afterMs',
    'roles',
  ]),
};

/** Sooner, people would be reminded of what they were only just asked. */
const remindAfterMs: JSONSchema7 = { ...duration, minimum: 60_000 };

const approvalRule = record({
  tools: patterns,
  effects,
  arguments: { type: 'object' },
  tainted: { const: true },
  reason: text,
  roles: { type: 'array', items: text },
  notRequester: flag,
  mayEdit: flag,
  mayRemember: flag,
  expiresAfterMs: duration,
  remindAfterMs,
  escalation,
});

const questionRule = record({
  tools: patterns,
  roles: { type: 'array', items: text },
  notRequester: flag,
  expiresAfterMs: duration,
  remindAfterMs,
  escalation,
});

const runBudget = record({
  tools: patterns,
  calls: amount,
  sum: record({ argument: pointer, most: { type: 'number' } }, ['argument', 'most']),
  tokens: amount,
  usd: amount,
  beyond: { type: 'string', enum: ['deny', 'ask'] },
});

const vouchedTool = record({
  effect: { type: 'string', enum: [...TOOL_EFFECTS] },
  reads: { type: 'string', enum: ['public', 'private'] },
  egress: flag,
  schemaHash: { type: 'string', pattern: '^[0-9a-f]{64}$' },
});

const callBudget = record({
  tools: patterns,
  maxRuntimeMs: amount,
  maxResultBytes: amount,
  maxArgsBytes: amount,
});
// the same for every application of a process: to compile it is most of what a small one takes to
// start
const form = new SchemaValidators();

/** The schema of a policy, which may come from a file or a database. */
export const POLICY_SCHEMA: JSONSchema7 = record(
  {
    version: text,
    allow: patterns,
    deny: patterns,
    tenants: { type: 'object', additionalProperties: grants },
    roles: { type: 'object', additionalProperties: grants },
    effects,
    requireApproval: { type: 'array', items: approvalRule },
    questions: { type: 'array', items: questionRule },
    runBudgets: { type: 'array', items: runBudget },
    callBudgets: { type: 'array', items: callBudget },
    connections: {
      type: 'array',
      items: record({ tools: patterns, connections: patterns }, ['tools', 'connections']),
    },
    vouched: { type: 'object', additionalProperties: vouchedTool },
    flow: { type: 'string', enum: ['off', 'trifecta', 'taint', 'values'] },
    flows: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          tool: { type: 'string' },
          argument: { type: 'string' },
          from: { type: 'string', pattern: '^[^#]+#' },
        },
        required: ['tool', 'argument', 'from'],
        additionalProperties: false,
      },
    },
    endorsements: {
      type: 'array',
      items: record({ tools: patterns, arguments: patterns, sources: patterns, always: flag }),
    },
    outsideBits: { type: 'number', minimum: 0 },
    shadow: flag,
  },
  ['allow'],
);
