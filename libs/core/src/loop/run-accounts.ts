import type {
  Decision,
  FinishReason,
  Message,
  MessageLabels,
  ToolCall,
  ToolErrorCode,
  ToolFailure,
  ToolInvocationRecord,
  ToolPrefix,
  ToolSpec,
} from '@toolloop/protocol';
import type { Limits } from '../contracts/limits.js';
import type { Toolset } from '../catalog/toolset.js';
import { type InformationFlow, type PolicyActor, PolicyEngine } from '../contracts/policy.js';
import { Logger } from '../findings/logger.js';
import { labelsOfBits, type MessageFlow } from '../policy/flow.js';
import { type ApprovalMode, revisionOf } from '../policy/rules.js';
import { showsUnpinned } from '../policy/vouched-tools.js';
import { canonicalJson, parseJson, sha256 } from '../schema/canonical-json.js';
import { type Form, list, NUMBER, object, pair, TEXT, wordOr } from '../schema/saved-form.js';

/** Why a call may not happen, and how the run ends for it. */
export interface LimitReached {
  readonly refusal: ToolFailure;
  readonly reason: FinishReason;
}

/** JSON. */
export interface SavedCounts {
  readonly perTool: readonly (readonly [string, number])[];
  readonly identical: readonly (readonly [string, number])[];
  readonly refusals: number;
}

export const SAVED_COUNTS = object<SavedCounts>({
  perTool: list(pair(NUMBER)),
  identical: list(pair(NUMBER)),
  refusals: NUMBER,
});

/** Returns whether a call was refused, or named a tool that is not there. */
export function isRefusal({ error }: Pick<ToolInvocationRecord, 'error'>): boolean {
  return error !== undefined && REFUSED.has(error.code);
}

/**
 * Tells whether a call was refused with the one before it: a person who says no to a group says it
 * once.
 */
function isSameNo(
  { error, declaredId }: ToolInvocationRecord,
  before: ToolInvocationRecord | undefined,
): boolean {
  return (
    error?.code === 'approval_denied' &&
    before?.error?.code === error.code &&
    before.declaredId === declaredId
  );
}

const REFUSED = new Set<ToolErrorCode>([
  'unknown_tool',
  'policy_denied',
  'forbidden',
  'approval_denied',
  'tenant_override',
]);

/**
 * The most different calls that are told apart, and the most names of no tool that are counted: a
 * session may be called without end.
 */
const MOST_COUNTED = 1_000;
/** The most characters of a call that are kept to tell it from others. */
const MOST_KEPT = 200;

/** Counts one run's calls against its limits. */
export class CallCounter {
  private readonly perTool: Map<string, number>;
  private readonly identical: Map<string, number>;
  private refusals: number;
  /** The calls that were counted since the last time they were taken. */
  private readonly counted = { perTool: new Set<string>(), identical: new Set<string>() };

  constructor(
    private readonly limits: Limits,
    saved: SavedCounts = { perTool: [], identical: [], refusals: 0 },
    /** The counter of the run around a sub-run, whose calls it counts too. */
    private readonly outer?: CallCounter,
  ) {
    this.perTool = new Map(saved.perTool);
    this.identical = new Map(saved.identical);
    this.refusals = saved.refusals;
  }

  save(): SavedCounts {
    return { perTool: [...this.perTool], identical: [...this.identical], refusals: this.refusals };
  }

  /** The counts that have changed since they were taken last. */
  takeChanged(): SavedCounts {
    const { perTool, identical } = this.counted;
    const changed = {
      perTool: changedOf(this.perTool, perTool),
      identical: changedOf(this.identical, identical),
      refusals: this.refusals,
    };
    perTool.clear();
    identical.clear();
    return changed;
  }

  /** Counts a call; answers with the limit it goes beyond. A call of no tool has no declared id. */
  admit(call: ToolCall, declaredId: string | undefined): LimitReached | undefined {
    const most = this.mostReached(declaredId ?? call.name, declaredId !== undefined);
    if (this.limits.identicalCalls === Number.POSITIVE_INFINITY) return beyond(most);
    const key = keyOf(`${call.name} ${this.canonical(call.arguments)}`);
    const same = countIn(this.identical, key);
    this.counted.identical.add(key);
    this.forgetOldest();
    if (same > this.limits.identicalCalls) {
      return limit(
        'no_progress',
        `This very call was made ${this.limits.identicalCalls} times already. Its result will not change.`,
      );
    }
    return beyond(most);
  }

  /**
   * Counts a call of a tool, here and around, where there is a limit; answers with the limit that
   * it goes beyond. A session may be called without end, under any names.
   */
  private mostReached(declaredId: string, isTool: boolean): number | undefined {
    const around = this.outer?.mostReached(declaredId, isTool);
    if (this.limits.callsPerTool === Number.POSITIVE_INFINITY) return around;
    if (!isTool && this.perTool.size >= MOST_COUNTED && !this.perTool.has(declaredId))
      return around;
    const calls = countIn(this.perTool, declaredId);
    this.counted.perTool.add(declaredId);
    return calls > this.limits.callsPerTool ? this.limits.callsPerTool : around;
  }

  /**
   * Forgets the call that was made least recently: one that comes back after a thousand others is
   * no circle.
   */
  private forgetOldest(): void {
    const [oldest] = this.identical.size > MOST_COUNTED ? this.identical.keys() : [];
    if (oldest === undefined) return;
    this.identical.delete(oldest);
    this.counted.identical.delete(oldest);
  }

  /** Looks for unknown tools and refused calls in a row, in the order of the calls of a step. */
  refusalLimit(
    records: readonly ToolInvocationRecord[],
    mode: ApprovalMode,
  ): FinishReason | undefined {
    for (const [index, record] of records.entries()) {
      const { error } = record;
      if (mode !== 'deny' && isSameNo(record, records[index - 1])) continue;
      this.refusals = error && REFUSED.has(error.code) ? this.refusals + 1 : 0;
      if (error && this.refusals > 0 && this.refusals >= this.limits.refusalsInARow)
        return error.code === 'unknown_tool' ? 'no_progress' : 'forbidden';
    }
    return undefined;
  }

  /** Arguments too large to be taken, or too deep to be walked, are compared as they stand. */
  private canonical(text: string): string {
    if (text.length > this.limits.argumentBytes) return text;
    try {
      const value = parseJson(text);
      return value === undefined ? text : canonicalJson(value);
    } catch {
      return text;
    }
  }
}

function beyond(most: number | undefined): LimitReached | undefined {
  return most === undefined
    ? undefined
    : limit('max_calls', `This tool was called ${most} times already, which is the limit.`);
}

function limit(reason: FinishReason, safeMessage: string): LimitReached {
  return { reason, refusal: { code: 'budget_exceeded', safeMessage } };
}

function keyOf(call: string): string {
  return call.length > MOST_KEPT ? sha256(call) : call;
}

/** Counts, and puts what was counted last at the end. */
function countIn(counts: Map<string, number>, key: string): number {
  const count = (counts.get(key) ?? 0) + 1;
  counts.delete(key);
  counts.set(key, count);
  return count;
}

function changedOf(
  counts: ReadonlyMap<string, number>,
  changed: ReadonlySet<string>,
): SavedCounts['perTool'] {
  return [...changed].map((key) => [key, counts.get(key) ?? 0]);
}

/** The hash of the tools up to and including one, after others that hash to `after`. */
interface Link {
  readonly after: string;
  readonly hash: string;
}

/**
 * Specs are immutable and most runs begin with the same ones in the same order, so that mostly
 * nothing is hashed at all.
 */
const links = new WeakMap<ToolSpec, Link>();
/** The hashes of whole lists, which runs share. */
const chains = new WeakMap<readonly ToolSpec[], readonly string[]>();

/**
 * The tools that a run sent with its last model call: a provider's prompt cache holds for as many
 * as stand before the first that changed.
 */
export class SentTools {
  private specs: readonly ToolSpec[] = [];

  /** `hashes` of every beginning of the list, shortest first; JSON. */
  constructor(private hashes: readonly string[] = []) {}

  save(): readonly string[] {
    return this.hashes;
  }

  /** Notes what is sent now, and says what of it is as it was. */
  send(specs: readonly ToolSpec[]): ToolPrefix {
    const before = this.hashes;
    if (specs === this.specs)
      return { hash: before.at(-1) ?? '', tools: specs.length, unchanged: before.length };
    this.hashes = this.hashesOf(specs);
    this.specs = specs;
    const changed = this.hashes.findIndex((hash, index) => hash !== before[index]);
    const unchanged = changed < 0 ? this.hashes.length : changed;
    return { hash: this.hashes.at(-1) ?? '', tools: specs.length, unchanged };
  }

  private hashesOf(specs: readonly ToolSpec[]): readonly string[] {
    const known = chains.get(specs);
    if (known) return known;
    let isAsBefore = true;
    let after = '';
    const hashes = specs.map((spec, index) => {
      isAsBefore &&= spec === this.specs[index];
      after = isAsBefore ? (this.hashes[index] ?? '') : hashOf(spec, after);
      return after;
    });
    chains.set(specs, hashes);
    return hashes;
  }
}

function hashOf(spec: ToolSpec, after: string): string {
  const known = links.get(spec);
  if (known?.after === after) return known.hash;
  const { id, description, schemaHash } = spec;
  const hash = sha256(JSON.stringify([after, id, description, schemaHash])).slice(0, 16);
  links.set(spec, { after, hash });
  return hash;
}

/** Roles as a strategy says them: those that hold, or all that the actor has. */
export type AssumedRoles = readonly string[] | 'all';

export const SAVED_ROLES: Form<AssumedRoles> = wordOr('all', list(TEXT));

/** The actor for whom policies decide at present, and the policies. */
export interface Authority {
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
}

/**
 * The authority for which the tools were listed when the run was prepared, and the revision of the
 * policies then.
 */
export interface PlannedAuthority extends Authority {
  readonly listedUnder: number;
}

const UNKNOWN: Decision = {
  kind: 'deny',
  rule: 'roles',
  reason: 'The roles of the actor could not be found out.',
  policyVersion: 'none',
};

/** Precedes all policies if the roles of the actor are unknown. */
class UnknownRoles extends PolicyEngine {
  override decide(): Decision {
    return UNKNOWN;
  }
}

/**
 * The roles of whom a run acts for: what the application says they are at this moment, and of those
 * what the run assumes. It can assume less than there is, never more.
 */
export class RunRoles {
  private readonly logger = new Logger(RunRoles.name);
  private listedFor: string;
  private listedUnder: number;

  constructor(
    private readonly planned: PlannedAuthority,
    private readonly read: () => readonly string[],
    private own: AssumedRoles | undefined,
    /** The roles of the run around a sub-run. */
    private readonly outer?: RunRoles,
  ) {
    this.listedFor = JSON.stringify(planned.actor);
    this.listedUnder = planned.listedUnder;
  }

  /** Returns the assumed roles; undefined if none were ever assumed. */
  get assumed(): AssumedRoles | undefined {
    return this.own;
  }

  assume(roles: AssumedRoles): void {
    this.own = roles;
  }

  /** Asked at every listing and every call, so that a role taken away is gone with the next. */
  now(): Authority {
    const { actor, policies } = this.planned;
    const assumed = this.held;
    try {
      return {
        actor: { tenant: actor.tenant, roles: this.read(), ...(assumed && { assumed }) },
        policies,
      };
    } catch (error) {
      this.logger.error('The roles of an actor could not be read, so everything is denied.', error);
      return {
        actor: { tenant: actor.tenant, roles: [] },
        policies: [new UnknownRoles(), ...policies],
      };
    }
  }

  /**
   * Returns what has changed of the authority since the tools were last listed, and remembers this
   * one; undefined where nothing has.
   */
  changeIn({ actor, policies }: Authority): 'roles' | 'policy' | undefined {
    const now = JSON.stringify(policies.length === this.planned.policies.length ? actor : UNKNOWN);
    const revision = revisionOf(policies);
    const change =
      now !== this.listedFor ? 'roles' : revision === this.listedUnder ? undefined : 'policy';
    this.listedFor = now;
    this.listedUnder = revision;
    return change;
  }

  /** A sub-run holds no role that the run around it has laid down. */
  private get held(): readonly string[] | undefined {
    const around = this.outer?.held;
    if (this.own === undefined || this.own === 'all') return around;
    return around ? this.own.filter((role) => around.includes(role)) : this.own;
  }
}

/**
 * The labels of all that the model of one run has read: the transcript, and what it was shown
 * beside it.
 */
export class RunFlow {
  private wasShownMore = false;
  /** The ids of entities whose tools were offered. */
  private readonly known = new Set<string>();

  constructor(private flow: MessageFlow) {}

  /**
   * Notes what a model is shown beside the transcript: what it has read it has read, whatever the
   * transcript says.
   */
  show(messages: readonly Message[]): void {
    this.flow = this.flow.beside(messages);
    this.wasShownMore = true;
  }

  /**
   * Notes which tools a model is offered: a description that is not pinned is a stranger's text.
   */
  offer(toolset: Toolset): void {
    if (!showsUnpinned(toolset)) return;
    this.flow = this.flow.tainted();
    this.wasShownMore = true;
  }

  /**
   * Notes the ids of entities that stand in no message, and so were counted nowhere: where texts
   * are hidden, the names and descriptions of their tools would tell the model what a stranger
   * chose.
   */
  offerEntities({ tools }: Toolset, read: readonly Message[]): void {
    const fresh = new Set(
      tools.flatMap(({ entity }) =>
        entity && !this.known.has(entity.instanceId) ? [entity.instanceId] : [],
      ),
    );
    for (const id of fresh) this.known.add(id);
    if ([...fresh].every((id) => read.some(({ content }) => JSON.stringify(content).includes(id))))
      return;
    this.flow = this.flow.tainted();
    this.wasShownMore = true;
  }

  /** The flow with this transcript read; from here on it is. */
  at(read: readonly Message[]): InformationFlow {
    this.flow = this.flow.at(read);
    return this.flow;
  }

  /** The worth of an answer whose model was shown more than the transcript tells. */
  get beyondTranscript(): MessageLabels | undefined {
    return this.wasShownMore ? labelsOf(this.flow) : undefined;
  }

  /** The worth of all that the model has read by the end of this transcript. */
  readIn(messages: readonly Message[]): MessageLabels {
    return labelsOf(this.flow.at(messages));
  }
}

function labelsOf({ outsideBits, confidentiality }: InformationFlow): MessageLabels {
  return { ...labelsOfBits(outsideBits), reads: confidentiality };
}

/** The call ids of one run. A provider's id is kept unless it is unusable or was used before. */
export class CallIds {
  private readonly used: Set<string>;

  constructor(
    history: readonly Message[],
    private readonly maxLength: number,
  ) {
    this.used = new Set(
      history
        .flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []))
        .map(({ toolCallId }) => toolCallId),
    );
  }

  claim(providerId: string, step: number, index: number): string {
    const isUsable =
      providerId !== '' && providerId.length <= this.maxLength && !this.used.has(providerId);
    const id = isUsable ? providerId : this.unused(`call_${step}_${index}`);
    this.used.add(id);
    return id;
  }

  private unused(base: string): string {
    let id = base;
    for (let suffix = 2; this.used.has(id); suffix += 1) id = `${base}_${suffix}`;
    return id;
  }
}
