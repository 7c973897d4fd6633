import { Injectable } from '@nestjs/common';
import {
  type ComparedCall,
  type Decision,
  InvalidRequestError,
  isRecord,
  type RehearsalChoices,
  type RehearsedRun,
  type ToolInvocationRecord,
} from '@toolloop/protocol';
import { Operators } from '../operators/operators.js';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import type { Operator } from '../../contracts/operator.js';
import { PolicyEngine, policyList } from '../../contracts/policy.js';
import type { RunLog, RunRecord } from '../../contracts/run-log.js';
import type { RegisteredActor } from '../../contracts/registered-actor.js';
import { BoundedStores } from '../../call/bounded-stores.js';
import type { CandidatePolicy } from '../../run/loop-options.js';
import { LoopSettings } from '../../run/loop-settings.js';
import { wholeRun } from '../../run/run-entries.js';
import { RunOpener } from '../../run/run-opener.js';
import { invalid } from '../../run/request-check.js';
import type { SavedRun } from '../../run/saved-run.js';
import { ActorIdentity } from '../../policy/actor-identity.js';
import {
  type DecidedCall,
  PolicyReplayer,
  recordsIn,
  type ReplaySources,
} from '../operators/policy-replay.js';
import { isSameDecision } from '../operators/policy-differences.js';

/**
 * Rehearses stored runs with other models and policies, and shows each decision beside the one that
 * was recorded. A candidate decides nothing: calls are decided by the policies in force, no one is
 * asked about the changes of such a rehearsal, and none of them is performed. For operators who are
 * permitted `replay`.
 */
@Injectable()
export class RehearsalService<Actor = RegisteredActor> {
  private readonly log: RunLog;
  private readonly sources: ReplaySources;
  /** A candidate is compiled when it is first asked. */
  private readonly engines = new Map<string, PolicyEngine>();

  constructor(
    stores: BoundedStores,
    catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    private readonly operators: Operators<Actor>,
    private readonly identity: ActorIdentity,
    private readonly opener: RunOpener,
  ) {
    this.log = stores.runs;
    const rolesOf = async ({ actorId, tenant }: RunRecord) =>
      identity.rolesOf(await opener.actorOf(actorId, tenant));
    this.sources = { log: stores.runs, catalog, inForce: settings.inForce, rolesOf };
  }

  /**
   * Lists the models and the policies that a rehearsal may name.
   *
   * @throws {OperatorError} Where the person may not rehearse.
   * @example
   * const { models, policies } = await rehearsals.choices({ actor: user, tenant: user.tenantId });
   */
  async choices(operator: Operator<Actor>): Promise<RehearsalChoices> {
    await this.operators.use(operator, 'replay', { details: { do: 'choices' } });
    const { models = {}, candidates = {} } = this.settings.options;
    return { models: Object.keys(models), policies: Object.keys(candidates) };
  }

  /**
   * Rehearses a run. With a policy alone its calls are decided again, and the comparison is there
   * at once. With a model the question of the run is asked again, as a durable run that changes
   * nothing and whose id is `rehearsedBy`: {@link compare} tells of that one, with the same policy.
   *
   * @param runId of the operator's tenant; with a model, a durable run of their own, since its
   *   reads are made anew as its actor
   * @throws {OperatorError} Where the person may not rehearse.
   * @throws {InvalidRequestError} `unknown_run`; `unknown_model`, or for another policy, with the
   *   names that there are; where neither is named.
   * @example
   * const { calls } = await rehearsals.rehearse(
   *   runId,
   *   { policy: 'stricter' },
   *   { actor: user, tenant: user.tenantId },
   * );
   * const flips = calls.filter(({ flipped }) => flipped);
   */
  async rehearse(
    runId: string,
    terms: RehearsalTerms,
    operator: Operator<Actor>,
  ): Promise<RehearsedRun> {
    const { model, policy } = terms;
    const run = await this.permitted(runId, terms, operator);
    if (model === undefined && policy === undefined)
      throw invalid('A rehearsal names a model, a policy, or both.');
    if (policy !== undefined) this.engineNamed(policy);
    if (model === undefined) return this.compared(run, policy);
    if (typeof model !== 'string') throw invalid('The model is not a name.');
    this.settings.modelFor(model); // throws for one that is not there
    if (run.actorId !== this.identity.idOf(operator.actor)) throw invalid(NOT_YOURS);
    const rehearsedBy = await this.opener.durable.rehearse(run, model);
    return {
      runId,
      rehearsedBy,
      model,
      ...(policy !== undefined && { policy }),
      isOver: false,
      calls: [],
    };
  }

  /**
   * Compares a rehearsal with the run that it rehearses, as far as it came: its decisions, or with
   * a policy those that this one makes about its calls. A run that rehearses no other is compared
   * with itself, which needs a policy.
   *
   * @throws {OperatorError} Where the person may not rehearse.
   * @throws {InvalidRequestError} `unknown_run`; for another policy, with the names that there are.
   * @example
   * const { isOver, calls } = await rehearsals.compare(
   *   rehearsedBy,
   *   { policy: 'stricter' },
   *   operator,
   * );
   */
  async compare(
    runId: string,
    { policy }: Pick<RehearsalTerms, 'policy'>,
    operator: Operator<Actor>,
  ): Promise<RehearsedRun> {
    const run = await this.permitted(runId, policy === undefined ? {} : { policy }, operator);
    return this.compared(run, policy);
  }

  private async compared(run: RunRecord, policy: string | undefined): Promise<RehearsedRun> {
    const { runId } = run;
    const of = isRehearsal(run) ? await this.log.find(run.forkOf.runId) : undefined;
    if (!of && policy === undefined)
      throw invalid(`The run rehearses no other: name a policy. ${this.knownPolicies()}`);
    const saved = wholeRun(runId, await this.log.read(runId));
    const made = madeIn(saved);
    const candidate =
      policy === undefined
        ? made
        : await this.decidedBy(this.engineNamed(policy), run, saved, made);
    const named = policy !== undefined && { policy };
    if (!of)
      return {
        runId,
        ...named,
        isOver: true,
        calls: candidate.map((call, index) => besides(made[index], call)),
      };
    const recorded = madeIn(wholeRun(of.runId, await this.log.read(of.runId)));
    const model = run.request?.['model'];
    const terms = { ...(typeof model === 'string' && { model }), ...named };
    return {
      runId: of.runId,
      rehearsedBy: runId,
      ...terms,
      ...endOf(run),
      calls: paired(recorded, candidate),
    };
  }

  private async decidedBy(
    engine: PolicyEngine,
    run: RunRecord,
    saved: SavedRun | undefined,
    made: readonly MadeCall[],
  ): Promise<readonly CandidateCall[]> {
    const decided = saved
      ? await new PolicyReplayer(this.sources, engine).decisions(run, saved)
      : [];
    const byCall = new Map<string, DecidedCall>(decided.map((one) => [one.toolCallId, one]));
    return made.map(({ decision: _recorded, ...call }) => {
      const again = byCall.get(call.toolCallId);
      if (again && 'after' in again) return { ...call, decision: again.after };
      return { ...call, why: again?.why ?? 'no_arguments' };
    });
  }

  /** Resolves to a run of the operator's tenant, after it was recorded that they look at it. */
  private async permitted(
    runId: unknown,
    { model, policy }: RehearsalTerms,
    operator: Operator<Actor>,
  ): Promise<RunRecord> {
    const said = {
      ...(model !== undefined && { model: shown(model) }),
      ...(policy !== undefined && { policy: shown(policy) }),
    };
    await this.operators.use(operator, 'replay', { details: { rehearsed: shown(runId), ...said } });
    const run = typeof runId === 'string' ? await this.log.find(runId) : undefined;
    if (run?.tenant === operator.tenant) return run;
    throw new InvalidRequestError(
      'unknown_run',
      `There is no run ${JSON.stringify(shown(runId))} in your tenant.`,
    );
  }

  private engineNamed(name: string): PolicyEngine {
    const { candidates = {} } = this.settings.options;
    const candidate = Object.hasOwn(candidates, name) ? candidates[name] : undefined;
    if (!candidate)
      throw invalid(`No policy is named ${JSON.stringify(shown(name))}. ${this.knownPolicies()}`);
    const engine = this.engines.get(name) ?? this.engineOf(name, candidate);
    this.engines.set(name, engine);
    return engine;
  }

  /** Those of tenants narrow a candidate as they narrow what is in force. */
  private engineOf(name: string, candidate: CandidatePolicy): PolicyEngine {
    return candidate instanceof PolicyEngine
      ? answering(name, candidate)
      : this.settings.inForce.with({ policies: policyList(candidate) });
  }

  private knownPolicies(): string {
    return `Known: ${Object.keys(this.settings.options.candidates ?? {}).join(', ') || 'none'}.`;
  }
}

/**
 * The model and the policy of a rehearsal, by the names that `forRoot` gives them in `models` and
 * `candidates`.
 */
export interface RehearsalTerms {
  readonly model?: string;
  readonly policy?: string;
}

/** A call of a run, as far as it is compared. */
interface MadeCall {
  readonly toolCallId: string;
  readonly step: number;
  readonly declaredId: string;
  /** Equal for the same call of the same instance. */
  readonly asked: string;
  readonly decision: Decision;
}

/** A call, and the decision that it is compared by. */
interface CandidateCall extends Omit<MadeCall, 'decision'> {
  readonly decision?: Decision;
  readonly why?: ComparedCall['why'];
}

const NOT_YOURS =
  'With another model a run is made again as its actor, so it must be a run of your own. Name a policy alone for the run of another.';
const MOST_SHOWN = 64;

function shown(name: unknown): string {
  return typeof name === 'string' ? name.slice(0, MOST_SHOWN) : '';
}

function isRehearsal(run: RunRecord): run is RunRecord & Required<Pick<RunRecord, 'forkOf'>> {
  return run.forkOf !== undefined && run.request?.['rehearse'] === true;
}

const KINDS: ReadonlySet<unknown> = new Set<Decision['kind']>([
  'allow',
  'deny',
  'require_approval',
]);

/**
 * Tells whether an engine has answered with a decision that can be shown, and sent: a class of the
 * application's may be written in JavaScript.
 */
function isDecision(value: unknown): value is Decision {
  if (!isRecord(value) || !KINDS.has(value['kind'])) return false;
  const { rule, reason, policyVersion, approval = [] } = value;
  return (
    [rule, reason, policyVersion].every((text) => typeof text === 'string') &&
    Array.isArray(approval) &&
    approval.every(isRecord)
  );
}

/**
 * An engine of the application's as a candidate: what is no decision, such as a promise of one, is
 * a failure, by which a call is denied.
 */
function answering(name: string, engine: PolicyEngine): PolicyEngine {
  return {
    decide: (subject) => {
      const decision = engine.decide(subject);
      if (isDecision(decision)) return decision;
      void Promise.resolve<unknown>(decision).catch(() => undefined);
      throw new TypeError(`The candidate "${name}" has not answered with a decision.`);
    },
    vouchedFor: (declaredId) => {
      try {
        return engine.vouchedFor?.(declaredId);
      } catch {
        return undefined; // it vouches for nothing
      }
    },
  };
}

function endOf({ status, finishReason }: RunRecord): Pick<RehearsedRun, 'isOver' | 'finishReason'> {
  return status === 'ended'
    ? { isOver: true, ...(finishReason && { finishReason }) }
    : { isOver: false };
}

/**
 * The calls of a run about which policy was asked. Those of sub-runs stand for themselves in their
 * call.
 */
function madeIn(saved: SavedRun | undefined): readonly MadeCall[] {
  if (!saved) return [];
  const asked = new Map(
    callsAsked(saved).map(({ toolCallId, arguments: text }) => [toolCallId, text]),
  );
  return recordsIn(saved).flatMap((record) => madeOf(record, asked.get(record.toolCallId)));
}

function callsAsked({
  state,
  pending,
}: SavedRun): readonly { readonly toolCallId: string; readonly arguments: string }[] {
  const told = state.messages.flatMap((message) =>
    message.role === 'assistant' ? (message.toolCalls ?? []) : [],
  );
  return [...told, ...(pending?.answer.toolCalls ?? [])];
}

function madeOf(
  { toolCallId, step, declaredId, decision, entity }: ToolInvocationRecord,
  args = '',
): readonly MadeCall[] {
  if (declaredId === undefined || !decision) return [];
  return [
    {
      toolCallId,
      step,
      declaredId,
      decision,
      asked: JSON.stringify([declaredId, entity?.instanceId ?? null, args]),
    },
  ];
}

/**
 * The calls of a run beside those of its rehearsal: the same call first, then the next one of the
 * same tool; at the end those that only the rehearsal makes.
 */
function paired(
  recorded: readonly MadeCall[],
  rehearsed: readonly CandidateCall[],
): readonly ComparedCall[] {
  const left = new Set(rehearsed);
  const take = (isIt: (call: CandidateCall) => boolean): CandidateCall | undefined => {
    const found = [...left].find(isIt);
    if (found) left.delete(found);
    return found;
  };
  const same = recorded.map(({ asked }) => take((call) => call.asked === asked));
  const beside = recorded.map((one, index) =>
    besides(one, same[index] ?? take(({ declaredId }) => declaredId === one.declaredId)),
  );
  return [...beside, ...[...left].map((call) => besides(undefined, call))];
}

function besides(
  recorded: MadeCall | undefined,
  candidate: CandidateCall | undefined,
): ComparedCall {
  const { toolCallId, step, declaredId } = recorded ?? candidate ?? NO_CALL;
  return {
    toolCallId,
    step,
    declaredId,
    ...decisionsOf(recorded?.decision, candidate?.decision),
    ...whyNone(candidate),
  };
}

function decisionsOf(
  recorded: Decision | undefined,
  candidate: Decision | undefined,
): Pick<ComparedCall, 'recorded' | 'candidate' | 'flipped'> {
  if (!recorded || !candidate)
    return { ...(recorded && { recorded }), ...(candidate && { candidate }), flipped: false };
  return { recorded, candidate, flipped: !isSameDecision(recorded, candidate) };
}

function whyNone(candidate: CandidateCall | undefined): Pick<ComparedCall, 'why'> {
  const why = candidate ? candidate.why : 'not_made';
  return why ? { why } : {};
}

const NO_CALL = { toolCallId: '', step: 0, declaredId: '' };
