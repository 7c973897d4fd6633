import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type Decision,
  InvalidRequestError,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type Message,
  NO_USAGE,
  type ToolCall,
  type ToolInvocationRecord,
  type Usage,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { ToolCatalog } from '../../catalog/tool-catalog.js';
import type { PolicyScope, PolicyVersion } from '../../contracts/policy-store.js';
import type { Endorsed, PolicyActor, PolicyCall, PolicyEngine } from '../../contracts/policy.js';
import type { RunLog, RunRecord } from '../../contracts/run-log.js';
import type { Tool } from '../../contracts/tool.js';
import { assistantMessage, hiddenIn } from '../../loop/loop-state.js';
import { decide, subjectOf } from '../../policy/decide.js';
import type { DataPolicyEngine } from '../../policy/policy-engine.js';
import { wholeRun } from '../../run/run-entries.js';
import type { SavedRun } from '../../run/saved-run.js';
import { parseJson } from '../../schema/canonical-json.js';
import { optionalNullRemoval } from '../../schema/optional-nulls.js';
import { SchemaValidators } from '../../schema/validators.js';
import { readStoredPolicy } from '../flow/dropped-levels.js';
import { MessageFlow } from '../flow/message-flow.js';
import { VouchedTools } from '../sources/vouched-tools.js';
import { SpendingLedger, type SpentCall } from '../usage/spending.js';
import { type ExpandedArguments, RunValues } from '../values/value-references.js';
import { VALUE_TOOL_IDS } from '../values/value-tools.js';
import { isSameDecision } from './policy-differences.js';

/** The decisions of stored runs that a version of the policies would have made otherwise. */
export interface PolicyReplay {
  /** Absent for policies that were never put. */
  readonly version?: number;
  readonly runs: readonly ReplayedRun[];
}

/**
 * A difference between two versions. Of a list of names each one that came or went is a difference
 * of its own.
 */
export interface PolicyDifference {
  /** The JSON pointer of the field, e.g. `/tenants/acme/deny`. */
  readonly at: string;
  /** Absent where it came. */
  readonly before?: JsonValue;
  /** Absent where it went. */
  readonly after?: JsonValue;
}

/** A call of a stored run about which other policies decide otherwise. */
export interface ReplayedDecision {
  readonly toolCallId: string;
  readonly step: number;
  readonly declaredId: string;
  /** The decision by which the call was made, asked about or refused. */
  readonly before: Decision;
  readonly after: Decision;
}

/**
 * A call that cannot be decided again, and why: its tool is gone, its arguments are not kept, or a
 * sub-run made it, whose transcript is not kept.
 */
export interface UnreplayedCall {
  readonly toolCallId: string;
  readonly why: 'tool_gone' | 'no_arguments' | 'sub_run';
}

/** The calls of one run as other policies decide about them. */
export interface ReplayedRun {
  readonly runId: string;
  /**
   * The reason for which nothing of it was decided again. A run of another tenant reads as unknown.
   */
  readonly problem?: 'unknown_run' | 'unreadable_run' | 'unknown_actor';
  /** The number of calls that were decided again. */
  readonly decided: number;
  readonly changed: readonly ReplayedDecision[];
  readonly skipped: readonly UnreplayedCall[];
}

/** The services that a replay reads from. */
export interface ReplaySources {
  readonly log: RunLog;
  readonly catalog: ToolCatalog;
  readonly inForce: DataPolicyEngine;
  /**
   * Loads an actor's roles as they are now. Rejects with `InvalidRequestError` for an actor that is
   * not known.
   */
  readonly rolesOf: (run: RunRecord) => Promise<readonly string[]>;
}

/**
 * Policies of a scope, whether they were put or not. Without policies they are those that the
 * application started with.
 */
export type PolicyDraft = Pick<PolicyVersion, 'tenant' | 'policies' | 'endorsed'>;

/** A call that was decided again, or why it was not. */
export type DecidedCall = ReplayedDecision | UnreplayedCall;

type DecidedAgain = Pick<ReplayedRun, 'decided' | 'changed' | 'skipped'>;

type LabelledTool = Pick<Tool, 'spec' | 'origin' | 'subRun'>;

const NOTHING: DecidedAgain = { decided: 0, changed: [], skipped: [] };
const EVENTS = 500;
/** The statuses of a call that was let in: budgets count no other. */
const MADE = new Set<ToolInvocationRecord['status']>(['succeeded', 'failed']);

/**
 * Decides again about the calls of stored runs as if a version were in force in its scope. Each
 * decision rests on what the model had read and spent by then; roles, tools and their labels are
 * those of today. It makes no call, and changes nothing.
 */
export class PolicyReplayer {
  private readonly vouched: VouchedTools;
  private readonly validators = new SchemaValidators();

  constructor(
    private readonly sources: ReplaySources,
    /** Decides as the version would. */
    private readonly engine: PolicyEngine,
    private readonly scope: PolicyScope = {},
  ) {
    this.vouched = new VouchedTools(engine);
  }

  /** Replays one run. */
  async replay(runId: string): Promise<ReplayedRun> {
    const { log } = this.sources;
    const run = await log.find(runId);
    if (!run || !isWithin(this.scope, run)) return { ...NOTHING, runId, problem: 'unknown_run' };
    try {
      const saved = wholeRun(runId, await log.read(runId));
      return { runId, ...(saved ? changedIn(await this.decisions(run, saved)) : NOTHING) };
    } catch (error) {
      if (!(error instanceof InvalidRequestError)) throw error;
      return {
        ...NOTHING,
        runId,
        problem: error.code === 'unreadable_run' ? 'unreadable_run' : 'unknown_actor',
      };
    }
  }

  /**
   * Decides again about every call of a run. Rejects with `InvalidRequestError` where its actor is
   * not known any more.
   */
  async decisions(run: RunRecord, saved: SavedRun): Promise<readonly DecidedCall[]> {
    const { state, pending } = saved;
    const decides = await this.decisionsOf(run, saved);
    const messages = pending
      ? [...state.messages, assistantMessage(pending.answer)]
      : state.messages;
    const past = new RunPast(
      messages,
      await usageBySteps(this.sources.log, run),
      this.validators,
      saved.approvals,
    );
    const made = recordsIn(saved);
    const inner = made.flatMap(({ subRun }) => subRun?.toolCalls ?? []);
    const calls: DecidedCall[] = [];
    for (const record of made) {
      // an engine answers at once, and the calls of others are made between two of its answers
      await nextTurn();
      calls.push(...this.replayed(record, past, decides));
    }
    return [...calls, ...inner.map(({ toolCallId }) => ({ toolCallId, why: 'sub_run' as const }))];
  }

  /**
   * The decisions about the calls of a run: its own policies narrow the version, as they did then.
   */
  private async decisionsOf(
    run: RunRecord,
    { roles: held, policies }: SavedRun,
  ): Promise<(tool: LabelledTool, call: PolicyCall) => Decision> {
    const { inForce, rolesOf } = this.sources;
    const assumed = held === 'all' ? undefined : held;
    const actor: PolicyActor = {
      tenant: run.tenant,
      roles: await rolesOf(run),
      ...(assumed && { assumed }),
    };
    const engines = [...inForce.compiled(policies.map(readStoredPolicy)), this.engine];
    return (tool, call) => decide(engines, { ...subjectOf(tool, actor), call });
  }

  /** Decides again about one call; nothing where it failed before policy was asked. */
  private replayed(
    { decision: before, declaredId, ...record }: ToolInvocationRecord,
    past: RunPast,
    decides: (tool: LabelledTool, call: PolicyCall) => Decision,
  ): readonly DecidedCall[] {
    const { toolCallId, step } = record;
    if (!before || declaredId === undefined) return [];
    const tool = this.toolOf(declaredId);
    const call = tool && past.callOf({ ...record, endorsedBy: before.endorsedBy }, tool);
    if (!tool || !call) return [{ toolCallId, why: tool ? 'no_arguments' : 'tool_gone' }];
    const after = decides(tool, call);
    if (before.kind !== 'deny' && MADE.has(record.status))
      past.spend({ declaredId, trusted: tool.origin.trusted, args: call.args });
    return [{ toolCallId, step, declaredId, before, after }];
  }

  /** A tool as the version would label it. */
  private toolOf(declaredId: string): LabelledTool | undefined {
    const { catalog } = this.sources;
    const tool = catalog.find(declaredId);
    return tool ? this.vouched.take(tool) : catalog.entityTool(declaredId);
  }
}

/** A record of a call, and the approval on which its decision rested. */
type ReplayedRecord = Pick<ToolInvocationRecord, 'toolCallId' | 'step' | 'entity' | 'id'> & {
  readonly endorsedBy: string | undefined;
};

/** A call in the transcript, and the place of its message there. */
type AskedCall = Pick<ToolCall, 'name' | 'arguments'> & { readonly at: number };

/** A run as it stood at each of its calls. They are asked about in their order. */
class RunPast {
  private readonly asked: ReadonlyMap<string, AskedCall>;
  private readonly spent = new SpendingLedger();
  private readonly values = new RunValues();
  /** The approvals that were given by now, of those in which people trusted something. */
  private readonly given = new Set<string | undefined>();
  private flow = MessageFlow.of([]);

  constructor(
    private readonly messages: readonly Message[],
    private readonly usage: ReadonlyMap<number, Usage>,
    private readonly validators: SchemaValidators,
    private readonly approvals: SavedRun['approvals'],
  ) {
    this.values.learn(hiddenIn(messages));
    const calls = messages.flatMap((message, at) =>
      message.role === 'assistant'
        ? (message.toolCalls ?? []).map((call) => [call.toolCallId, { ...call, at }] as const)
        : [],
    );
    this.asked = new Map(calls);
  }

  /**
   * The facts of a call on which its decision rests; undefined where the transcript has no
   * arguments of it.
   */
  callOf(record: ReplayedRecord, tool: LabelledTool): PolicyCall | undefined {
    const { toolCallId, step, entity, id, endorsedBy } = record;
    const asked = this.asked.get(toolCallId);
    const sent = asked && this.expanded(sentBy(asked, id), tool);
    if (!sent) return undefined;
    this.flow = this.flow.at(this.messages.slice(0, asked.at + 1));
    const {
      inputTokens,
      outputTokens,
      costUsd = 0,
      hasUnknownCost = false,
    } = this.usage.get(step) ?? NO_USAGE;
    Object.assign(this.spent, { tokens: inputTokens + outputTokens, usd: costUsd, hasUnknownCost });
    const known = {
      endorsed: this.endorsedAt(toolCallId, endorsedBy),
      ...(entity && { instanceId: entity.instanceId }),
    };
    return {
      ...sent,
      args: this.read(sent.args, tool.spec.inputSchema),
      flow: this.flow,
      spent: this.spent,
      ...known,
    };
  }

  /** Puts texts in the place of references, as the call did. One to nothing was no call. */
  private expanded(
    args: JsonObject | undefined,
    { spec, subRun }: LabelledTool,
  ): ExpandedArguments | undefined {
    if (!args || subRun || VALUE_TOOL_IDS.has(spec.declaredId))
      return args && { args, outside: [] };
    try {
      return this.values.expand(args);
    } catch {
      return undefined;
    }
  }

  /**
   * The things that people trusted before a call: its own approval holds from the next one on. That
   * of a sub-run is known where a decision names it.
   */
  private endorsedAt(toolCallId: string, endorsedBy: string | undefined): readonly Endorsed[] {
    const { asked, endorsed = [] } = this.approvals;
    if (endorsedBy !== undefined) this.given.add(endorsedBy);
    const trusted = endorsed.flatMap((one) =>
      this.given.has(one.approvalId) ? [one.endorsed] : [],
    );
    this.given.add(asked.find(([id]) => id === toolCallId)?.[1]);
    return trusted;
  }

  /** The arguments as calls are decided by: optional nulls left out, and defaults filled in. */
  private read(sent: JsonObject, schema: JSONSchema7): JsonObject {
    const args = structuredClone(optionalNullRemoval(schema)(sent));
    this.validators.distrust(schema);
    this.validators.validate(schema, args);
    return args;
  }

  /** Counts a call that was let in. */
  spend(call: SpentCall): void {
    this.spent.calls.push(call);
  }
}

/**
 * The arguments of a call as they were sent. Those of an entity's own tool are a part of what was
 * sent over a surface, which has another id.
 */
function sentBy({ name, arguments: text }: AskedCall, id: string): JsonObject | undefined {
  const sent = parseJson(text) ?? {};
  const args = name === id || !isJsonObject(sent) ? sent : (sent['args'] ?? {});
  return isJsonObject(args) ? args : undefined;
}

/**
 * Resolves to the usage of a run by the end of each of its steps, as its events tell it. A run that
 * is not durable keeps none, and counts as free.
 */
async function usageBySteps(
  log: RunLog,
  { runId, lastSequence }: RunRecord,
): Promise<ReadonlyMap<number, Usage>> {
  const totals = new Map<number, Usage>();
  for (let after = 0; after < lastSequence;) {
    const events = await log.events(runId, { after, limit: EVENTS });
    for (const event of events) if (event.type === 'usage') totals.set(event.step, event.total);
    const last = events.at(-1);
    if (!last) break; // they are kept no more
    after = last.sequence;
  }
  return totals;
}

/** The calls of a run, those of a step that has not ended included. */
export function recordsIn({
  state,
  pending,
}: Pick<SavedRun, 'state' | 'pending'>): readonly ToolInvocationRecord[] {
  return [...state.records, ...(pending?.outcomes.map(({ record }) => record) ?? [])];
}

function changedIn(calls: readonly DecidedCall[]): DecidedAgain {
  const decided = calls.filter((call) => 'after' in call);
  return {
    decided: decided.length,
    changed: decided.filter(({ before, after }) => !isSameDecision(before, after)),
    skipped: calls.filter((call) => 'why' in call),
  };
}

function isWithin({ tenant }: PolicyScope, run: RunRecord): boolean {
  return tenant === undefined || tenant === run.tenant;
}
