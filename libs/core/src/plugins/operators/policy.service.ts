import { randomUUID } from 'node:crypto';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { ConfigurationError, type Finding, type JsonObject } from '@toolloop/protocol';
import { Operators } from './operators.js';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import { closestTo } from '../../catalog/closest-tools.js';
import type { Operator } from '../../contracts/operator.js';
import { type Policy, policyList } from '../../contracts/policy.js';
import type {
  PolicyScope,
  PolicyStop,
  PolicyStore,
  PolicyVersion,
} from '../../contracts/policy-store.js';
import type { RegisteredActor } from '../../contracts/registered-actor.js';
import type { RunRecord } from '../../contracts/run-log.js';
import { BoundedStores } from '../../call/bounded-stores.js';
import { isWhole } from '../../findings/option-rules.js';
import { LoopSettings } from '../../run/loop-settings.js';
import { RunOpener } from '../../run/run-opener.js';
import { ActorIdentity } from '../../policy/actor-identity.js';
import { readStoredVersion } from '../flow/dropped-levels.js';
import { PolicyFeed } from './policy-feed.js';
import { DataPolicyEngine } from '../../policy/policy-engine.js';
import { differencesBetween } from './policy-differences.js';
import {
  type PolicyDifference,
  type PolicyDraft,
  type PolicyReplay,
  PolicyReplayer,
  type ReplayedRun,
  type ReplaySources,
} from './policy-replay.js';

/**
 * Changes the policies while the application runs, and stops what must not continue. A change is in
 * force in every process within a second. For operators, see `forRoot({ operators })`: in their own
 * tenant with the action `policy` or `killSwitch`, and for all tenants where the action is given
 * for all.
 */
@Injectable()
export class PolicyService<Actor = RegisteredActor> implements OnModuleDestroy {
  private readonly store: PolicyStore;
  private readonly feed: PolicyFeed;
  private readonly replayed: ReplaySources;

  constructor(
    stores: BoundedStores,
    private readonly inForce: DataPolicyEngine,
    private readonly settings: LoopSettings,
    private readonly catalog: ToolCatalog,
    private readonly operators: Operators<Actor>,
    private readonly identity: ActorIdentity,
    opener: RunOpener,
  ) {
    this.store = stores.policies;
    const rolesOf = async ({ actorId, tenant }: RunRecord) =>
      identity.rolesOf(await opener.actorOf(actorId, tenant));
    this.replayed = { log: stores.runs, catalog, inForce, rolesOf };
    this.feed = new PolicyFeed(stores, inForce, (version, at) => this.findingsOf(version, at));
  }

  /**
   * Puts in force what the store has, and follows it from then on. Called once, when the catalog is
   * filled.
   *
   * @throws StorageUnavailableError if the store does not answer: then the application does not
   *   start
   * @example
   * await policies.start();
   */
  start(): Promise<void> {
    return this.feed.start();
  }

  onModuleDestroy(): Promise<void> {
    return this.feed.stop();
  }

  /**
   * True while this process knows what is in force. Otherwise it makes no call but reads of trusted
   * tools, and should get no requests.
   */
  get isReady(): boolean {
    return this.inForce.isReliable;
  }

  /**
   * Lists the versions that were put, the newest first: 100 unless `limit` says otherwise, and
   * never more than 1,000.
   *
   * @throws OperatorError if the person may not
   * @throws PolicyError if the page cannot be
   * @example
   * const [newest] = await policies.versions({ actor: user, tenant: user.tenantId }, { limit: 1 });
   */
  async versions(
    operator: Operator<Actor>,
    { limit = PAGE, before, ...reach }: PolicyListing = {},
  ): Promise<readonly PolicyVersion[]> {
    if (!isWhole(limit, 1, MOST_LISTED))
      throw invalid(`The limit is not a whole number from 1 to ${MOST_LISTED}.`);
    if (before !== undefined && !isWhole(before, 1))
      throw invalid('`before` is not the number of a version.');
    const scope = await this.permitted(operator, 'policy', reach, { do: 'versions' });
    const page = { ...scope, limit, ...(before !== undefined && { before }) };
    return (await this.store.list(page)).map(readStoredVersion);
  }

  /**
   * Returns a version with its policies. Version 0 is what the application started with.
   *
   * @throws OperatorError if the person may not
   * @throws PolicyError (`not_found`) if it was never put, or is one of those that are kept no more
   * @example
   * const { policies, author, reason } = await policies.get(3, {
   *   actor: user,
   *   tenant: user.tenantId,
   * });
   */
  async get(
    number: number,
    operator: Operator<Actor>,
    reach: PolicyReach = {},
  ): Promise<PolicyVersion> {
    const scope = await this.permitted(operator, 'policy', reach, {
      do: 'get',
      version: numberOrNull(number),
    });
    return this.find(scope, number);
  }

  /**
   * Puts policies in force, in every process within a second. They are checked like those of
   * `forRoot`, and one with a finding is refused whole. Those of a tenant narrow the application's.
   *
   * @throws OperatorError if the person may not
   * @throws ConfigurationError with every finding
   * @throws PolicyError (`conflict`) if another version was put since the expected one
   * @example
   * await policies.put({ ...policy, deny: ['crm__deleteCustomer'] }, operator, {
   *   expected: 3,
   *   reason: 'Ticket 4711.',
   *   everywhere: true,
   * });
   */
  async put(
    policy: Policy | readonly Policy[],
    operator: Operator<Actor>,
    put: PolicyPut,
  ): Promise<PolicyVersion> {
    const policies = readPolicies(policy);
    return this.add(operator, put, { do: 'put' }, (_scope, { endorsed } = {}) => ({
      policies,
      ...(endorsed && { endorsed }),
    }));
  }

  /**
   * Puts the policies of an earlier version in force again, as a new version. Version 0 is what the
   * application started with.
   *
   * @throws OperatorError if the person may not
   * @throws ConfigurationError with every finding, such as for a tool that is gone by now
   * @throws PolicyError if there is no such version, or another was put since the expected one
   * @example
   * await policies.rollback(3, operator, { expected: 5, reason: 'Version 4 denied too much.' });
   */
  async rollback(
    number: number,
    operator: Operator<Actor>,
    put: PolicyPut,
  ): Promise<PolicyVersion> {
    return this.add(
      operator,
      put,
      { do: 'rollback', rollbackOf: numberOrNull(number) },
      async (scope) => {
        const { policies, endorsed }: PolicyContent =
          number === 0 ? {} : await this.find(scope, number);
        return { ...(policies && { policies }), ...(endorsed && { endorsed }), rollbackOf: number };
      },
    );
  }

  /**
   * Returns the differences between two versions, by their numbers. Version 0 is what the
   * application started with.
   *
   * @throws OperatorError if the person may not
   * @throws PolicyError (`not_found`) if one of them is not there
   * @example
   * // [{ at: '/deny', after: 'crm__deleteCustomer' }]
   * const changes = await policies.diff(3, 4, operator);
   */
  async diff(
    from: number,
    to: number,
    operator: Operator<Actor>,
    reach: PolicyReach = {},
  ): Promise<readonly PolicyDifference[]> {
    const scope = await this.permitted(operator, 'policy', reach, {
      do: 'diff',
      from: numberOrNull(from),
      to: numberOrNull(to),
    });
    const [before, after] = [await this.find(scope, from), await this.find(scope, to)];
    return differencesBetween(before, after);
  }

  /**
   * Tells which calls of stored runs other policies would decide about otherwise: those of a
   * version, by its number, or policies that were never put. What a run had read and spent by each
   * call is as it was then; the roles of its actor and the tools are those of today. No tool is
   * called, and nothing changes.
   *
   * @param runIds at most 100, of any actor of the tenant, or of any tenant with `everywhere`
   * @throws OperatorError if the person may not
   * @throws ConfigurationError with every finding, for policies that were never put
   * @throws PolicyError if there is no such version, or the ids are not a list of texts
   * @example
   * const { runs } = await policies.replay(
   *   { ...policy, deny: ['crm__deleteCustomer'] },
   *   runIds,
   *   operator,
   *   { everywhere: true },
   * );
   * const denied = runs
   *   .flatMap(({ changed }) => changed)
   *   .filter(({ after }) => after.kind === 'deny');
   */
  async replay(
    version: number | Policy | readonly Policy[],
    runIds: readonly string[],
    operator: Operator<Actor>,
    reach: PolicyReach = {},
  ): Promise<PolicyReplay> {
    const runs = readRunIds(runIds);
    const scope = await this.permitted(operator, 'replay', reach, {
      version: numberOrNull(version),
      runs,
    });
    const isPut = typeof version === 'number';
    const draft = isPut
      ? await this.find(scope, version)
      : this.sound({ ...scope, policies: readPolicies(version) });
    const replayer = new PolicyReplayer(this.replayed, this.inForce.with(draft), scope);
    const replayed: ReplayedRun[] = [];
    // one after the other, since a transcript may be large
    for (const runId of runs) replayed.push(await replayer.replay(runId));
    return { ...(isPut && { version }), runs: replayed };
  }

  /**
   * Stops a tool, a source or everything, in the operator's tenant or everywhere, in every process
   * within a second: no call of it begins, reads under way are broken off, changes under way end as
   * they would, and what waits for it is held until it is released.
   *
   * @throws OperatorError if the person may not
   * @throws PolicyError (`invalid`) if there is no such tool or source
   * @example
   * const { stopId } = await policies.stop({ tool: 'orders__sendReceipt' }, operator, {
   *   reason: 'It mails the wrong customers.',
   * });
   */
  async stop(
    target: StopTarget,
    operator: Operator<Actor>,
    { reason, ...reach }: PolicyReason,
  ): Promise<PolicyStop> {
    const { tool, source } = this.checkedTarget(target);
    const said = { ...(tool !== undefined && { tool }), ...(source !== undefined && { source }) };
    const stopId = randomUUID();
    const why = readReason(reason);
    const scope = await this.permitted(operator, 'killSwitch', reach, {
      do: 'stop',
      stopId,
      ...said,
      reason: why,
    });
    const stop: PolicyStop = {
      ...scope,
      stopId,
      ...said,
      author: this.nameOf(operator),
      reason: why,
      at: new Date().toISOString(),
    };
    await this.store.stop(stop);
    await this.feed.refresh();
    return stop;
  }

  /**
   * Ends a stop. What was held continues as it is by then: nothing is approved by it, and an
   * approval that has expired meanwhile has expired.
   *
   * @throws OperatorError if the person may not
   * @throws PolicyError (`not_found`) if it is not in force
   * @example
   * await policies.release(stopId, operator, { reason: 'The addresses are right again.' });
   */
  async release(
    stopId: string,
    operator: Operator<Actor>,
    { reason }: Pick<PolicyReason, 'reason'>,
  ): Promise<void> {
    const why = readReason(reason);
    if (typeof stopId !== 'string') throw invalid('The id of the stop is not a text.');
    const { stops } = await this.store.read(Number.MAX_SAFE_INTEGER);
    const stop = stops.find((one) => one.stopId === stopId);
    // To an operator who may not look there, a stop of another tenant reads like none.
    const isSeen =
      stop &&
      (stop.tenant === undefined || this.operators.may(operator, 'killSwitch', stop.tenant));
    await this.permitted(operator, 'killSwitch', isSeen ? reachOf(stop) : {}, {
      do: 'release',
      stopId,
      reason: why,
    });
    if (!isSeen || !(await this.store.release(stopId)))
      throw new PolicyError('not_found', 'There is no such stop in force.');
    await this.feed.refresh();
  }

  /**
   * Lists the stops in force that are about a tenant, those of all tenants included; or with
   * `everywhere` every one.
   *
   * @throws OperatorError if the person may not
   * @example
   * const stopped = await policies.stops({ actor: user, tenant: user.tenantId });
   */
  async stops(operator: Operator<Actor>, reach: PolicyReach = {}): Promise<readonly PolicyStop[]> {
    const scope = await this.permitted(operator, 'killSwitch', reach, { do: 'stops' });
    await this.feed.refresh();
    return this.inForce.stopsIn(scope);
  }

  private async add(
    operator: Operator<Actor>,
    { reason, expected, ...reach }: PolicyPut,
    use: JsonObject,
    contentIn: (
      scope: PolicyScope,
      before?: PolicyContent,
    ) => PolicyContent | Promise<PolicyContent>,
  ): Promise<PolicyVersion> {
    if (!isWhole(expected, 0))
      throw invalid(
        '`expected` is not the number of a version: give that of the newest, 0 for none.',
      );
    const why = readReason(reason);
    const number = expected + 1;
    const scope = await this.permitted(operator, 'policy', reach, {
      ...use,
      version: number,
      reason: why,
    });
    const said = {
      ...scope,
      number,
      author: this.nameOf(operator),
      reason: why,
      at: new Date().toISOString(),
    };
    const version = this.sound<PolicyVersion>({
      ...said,
      ...(await contentIn(scope, await this.store.find(scope, expected))),
    });
    if (!(await this.store.add(version))) throw await this.conflict(scope, expected);
    await this.feed.refresh();
    return version;
  }

  private sound<Version extends PolicyDraft>(version: Version): Version {
    const findings = this.findingsOf(version, 'policy');
    if (findings.length > 0) throw new ConfigurationError(findings, 'policy');
    return version;
  }

  private findingsOf({ policies = [], tenant }: PolicyDraft, at: string): readonly Finding[] {
    return this.settings.applicationPolicyFindings(policies, {
      at,
      isOfTenant: tenant !== undefined,
    });
  }

  private async conflict(scope: PolicyScope, expected: number): Promise<PolicyError> {
    const [newest] = await this.store.list({ ...scope, limit: 1 });
    const { number, author } = newest ?? { number: 0, author: undefined };
    const by = author === undefined ? '' : `, by ${author}`;
    return new PolicyError(
      'conflict',
      `The newest version is ${number}${by}, not ${expected}. Look at it, and expect that one.`,
    );
  }

  private async find(scope: PolicyScope, number: number): Promise<PolicyVersion> {
    const found = isWhole(number, 1) ? await this.store.find(scope, number) : undefined;
    if (found) return readStoredVersion(found);
    if (number === 0) return { ...scope, ...this.started(scope) };
    throw new PolicyError(
      'not_found',
      `There is no version ${JSON.stringify(number)}; the last 1,000 are kept.`,
    );
  }

  private started({ tenant }: PolicyScope): Omit<PolicyVersion, 'tenant'> {
    const policies = tenant === undefined ? this.inForce.started : [];
    return {
      number: 0,
      policies,
      author: 'the application',
      reason: 'It starts with these.',
      at: STARTED_AT,
    };
  }

  /**
   * Rejects unless the person may act there, after it was recorded; resolves to the scope that is
   * meant.
   */
  private async permitted(
    operator: Operator<Actor>,
    action: 'policy' | 'killSwitch' | 'replay',
    { tenant = operator.tenant, everywhere = false }: PolicyReach,
    details: JsonObject,
  ): Promise<PolicyScope> {
    if (typeof tenant !== 'string' || tenant === '') throw invalid('The tenant is not a name.');
    await this.operators.use(operator, action, {
      ...(everywhere ? { everywhere } : { tenant }),
      details,
    });
    return everywhere ? {} : { tenant };
  }

  private nameOf({ actor }: Operator<Actor>): string {
    return this.identity.idOf(actor) ?? 'unknown';
  }

  /** A name without a tool would stop nothing, which is no time to find that out. */
  private checkedTarget({ tool, source }: StopTarget): StopTarget {
    const subjects = this.catalog.subjects();
    const isAnnounced = typeof tool === 'string' && this.catalog.announced.has(tool);
    if (!isAnnounced)
      assertKnown('tool', tool, new Set(subjects.map(({ declaredId }) => declaredId)));
    assertKnown('source', source, new Set(subjects.map(({ origin }) => origin.source)));
    return { ...(tool !== undefined && { tool }), ...(source !== undefined && { source }) };
  }
}

/** The reach of an operator's action on policies. */
export interface PolicyReach {
  /** @default the operator's own */
  readonly tenant?: string;
  /** Set for the policies of the application, which hold for all tenants. @default false */
  readonly everywhere?: boolean;
}

/** The reason for a change, which stays with it. */
export interface PolicyReason extends PolicyReach {
  readonly reason: string;
}

/** A change of policies. */
export interface PolicyPut extends PolicyReason {
  /**
   * The number of the version that it follows, 0 for none: a change that another operator made
   * meanwhile is not undone unseen.
   */
  readonly expected: number;
}

/** A selection of the versions of a scope. */
export interface PolicyListing extends PolicyReach {
  /** @default 100 */
  readonly limit?: number;
  /** The number of the last one of the page before. */
  readonly before?: number;
}

/** The target of a kill switch. Without a tool and a source it is everything. */
export interface StopTarget {
  /** A declared id. */
  readonly tool?: string;
  /** The name of a tool source, as `ToolCatalog.describe` tells it. */
  readonly source?: string;
}

/** Thrown for an action on policies that is not possible. Over HTTP: 404, 409, 400. */
export class PolicyError extends Error {
  override readonly name = 'PolicyError';

  constructor(
    readonly code: 'not_found' | 'conflict' | 'invalid',
    message: string,
  ) {
    super(message);
  }
}

/** The content of a version, beside who put it and why. */
type PolicyContent = Pick<PolicyVersion, 'policies' | 'endorsed' | 'rollbackOf'>;

const PAGE = 100;
const MOST_LISTED = 1_000;
const MOST_REPLAYED = 100;
const MOST_REASON_CHARACTERS = 1_000;
/** More than any policy needs. It is read by every process. */
const MOST_POLICY_BYTES = 262_144;

const STARTED_AT = new Date(0).toISOString();

function assertKnown(what: string, name: string | undefined, known: Iterable<string>): void {
  const names = [...known];
  if (name === undefined || names.includes(name)) return;
  if (typeof name !== 'string') throw invalid(`The ${what} is not a name.`);
  const closest = closestTo(name, names);
  const hint =
    closest.length > 0
      ? `Did you mean ${closest.map((one) => `"${one}"`).join(' or ')}?`
      : `Name a ${what} that is there.`;
  throw invalid(`No ${what} has the name ${JSON.stringify(name.slice(0, 64))}. ${hint}`);
}

function invalid(message: string): PolicyError {
  return new PolicyError('invalid', message);
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function reachOf({ tenant }: PolicyScope): PolicyReach {
  return tenant === undefined ? { everywhere: true } : { tenant };
}

function readReason(reason: unknown): string {
  if (typeof reason !== 'string' || reason.trim() === '')
    throw invalid('A reason is needed: it stays with the change.');
  return reason.slice(0, MOST_REASON_CHARACTERS);
}

function readRunIds(runIds: unknown): string[] {
  const isList =
    Array.isArray(runIds) &&
    runIds.length <= MOST_REPLAYED &&
    runIds.every((id: unknown) => typeof id === 'string');
  if (!isList) throw invalid(`The runs to replay are not a list of at most ${MOST_REPLAYED} ids.`);
  return [...new Set<string>(runIds)];
}

/** A copy: what is changed in the caller's object afterwards is not in force. */
function readPolicies(policy: Policy | readonly Policy[]): readonly Policy[] {
  const given = policyList(policy);
  if (given.length === 0)
    throw invalid(
      'There is no policy. To go back to what the application started with, roll back to version 0.',
    );
  if (Buffer.byteLength(JSON.stringify(given)) > MOST_POLICY_BYTES)
    throw invalid(`The policy is larger than ${MOST_POLICY_BYTES} bytes.`);
  return structuredClone(given);
}
