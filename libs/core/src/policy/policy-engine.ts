import {
  type ApprovalTerms,
  ConfigurationError,
  type Decision,
  StorageUnavailableError,
} from '@toolloop/protocol';
import { Subject } from 'rxjs';
import type { ToolCatalog } from '../catalog/tool-catalog.js';
import type {
  PolicyScope,
  PolicyState,
  PolicyStop,
  PolicyVersion,
} from '../contracts/policy-store.js';
import {
  type EndorsedArgument,
  type Policy,
  type PolicyActor,
  PolicyEngine,
  policyList,
  type PolicySubject,
  type RunBudget,
  type VouchedTool,
} from '../contracts/policy.js';
import { alwaysTrusting } from '../plugins/flow/commitments.js';
import { DEFAULT_FLOW } from '../plugins/flow/flow-rulings.js';
import { vouchedBy } from '../plugins/sources/vouched-tools.js';
import type { SchemaValidators } from '../schema/validators.js';
import { CompiledPolicy } from './compiled-policy.js';
import { decide } from './decide.js';
import { placeOfVersion } from './place-of-version.js';
import { policyFindings, policyShapeFindings } from './policy-findings.js';
import { answeredBy, hiddenBeyond, isTarget, type StoppableCall } from './rules.js';

/**
 * Decides by the policies that are in force: those of the application, which `forRoot` gives and
 * `PolicyService` changes for all processes, and behind them the further ones of a tenant, which
 * can only narrow. What is stopped is denied, whatever they say.
 *
 * A process relies on what it has read for a few seconds. After that it permits no call but reads
 * of trusted tools, until the store answers again.
 */
export class DataPolicyEngine extends PolicyEngine {
  /** Emits whenever the policies in force have changed. */
  readonly changed$ = new Subject<void>();
  /** Emits whenever something was released. */
  readonly released$ = new Subject<void>();
  /**
   * The ids of runs of which calls are held: they are looked at again once something was released.
   */
  readonly heldRuns = new Set<string>();
  /**
   * The policies of `forRoot`. They are compiled with the first decision, after bootstrap has
   * checked them.
   */
  private own: readonly CompiledPolicy[] | undefined;
  /** The policies that were put, by scope. Absent for a scope with those that it started with. */
  private readonly put = new Map<string | undefined, readonly CompiledPolicy[]>();
  /** The policies of tenants that have some, the application's included. */
  private readonly together = new Map<string, readonly CompiledPolicy[]>();
  /** The values that operators of a tenant trust in all of its runs. */
  private readonly always = new Map<string, readonly EndorsedArgument[]>();
  private stops: readonly PolicyStop[] = [];
  /** The calls that are interrupted as soon as they are stopped. */
  readonly underWay = new Set<CallUnderWay>();
  private reliableUntil = -Infinity;
  private changes = 1;
  private counted: readonly RunBudget[] | undefined;

  constructor(
    private initial: readonly Policy[],
    private readonly catalog: ToolCatalog,
    private readonly validators: SchemaValidators,
  ) {
    super();
  }

  /** The policies of the application that are in force. */
  get policies(): readonly Policy[] {
    return this.application().map(({ policy }) => policy);
  }

  /** The policies that `forRoot` gave. */
  get started(): readonly Policy[] {
    return this.initial;
  }
  storeRevision = 0; // what is in force here

  override revision(): number {
    return this.changes;
  }

  /** Returns the tenant only where it has policies or stops of its own. */
  override listedBy(actor: PolicyActor): string {
    const { tenant } = actor;
    const hasOwn = this.put.has(tenant) || this.stops.some((stop) => stop.tenant === tenant);
    return JSON.stringify([
      hasOwn ? tenant : null,
      ...this.inForceFor(tenant).map((policy) => policy.listedBy(actor)),
    ]);
  }

  /** Those of tenants are counted for everybody: what counts is asked without a tenant. */
  override budgets(): readonly RunBudget[] {
    this.counted ??= [...new Set([this.application(), ...this.put.values()])]
      .flat()
      .flatMap((policy) => policy.budgets());
    return this.counted;
  }

  override decide(subject: PolicySubject): Decision {
    if (subject.call) this.assertReliable(subject);
    const { tenant } = subject.actor;
    const asked =
      this.always.size === 0 ? subject : alwaysTrusting(this.always.get(tenant), subject);
    return this.stopRuling(subject) ?? decide(this.inForceFor(tenant), asked);
  }

  override hidesBeyond = (actor: PolicyActor): number | undefined =>
    // no tenant hides alone
    hiddenBeyond(this.application(), actor) && hiddenBeyond(this.inForceFor(actor.tenant), actor);

  override answeredBy(subject: PolicySubject): readonly ApprovalTerms[] {
    return answeredBy(this.inForceFor(subject.actor.tenant), subject);
  }

  /**
   * Returns what the strictest of the application's policies vouches for. Called before the
   * policies are checked, too.
   */
  override vouchedFor(declaredId: string): VouchedTool | undefined {
    const inForce = this.put.get(undefined) ?? this.own;
    return vouchedBy(inForce?.map(({ policy }) => policy) ?? this.initial, declaredId);
  }

  /**
   * Replaces the policies that `forRoot` gave, in this process alone. Where others were put by
   * `PolicyService`, those stay in force.
   *
   * @throws ConfigurationError with every finding if one of them is wrong; the current ones stay
   */
  replace(replacement: Policy | readonly Policy[]): void {
    const next = policyList(replacement);
    const { catalog, validators } = this;
    const known = {
      author: 'application',
      tools: catalog.subjects(),
      announced: catalog.announced,
      validators,
    } as const;
    const findings = next.flatMap((policy) => policyFindings(policy, 'policy', known));
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.initial = next;
    this.own = undefined;
    this.changed();
  }

  /**
   * Puts in force what a store has.
   *
   * @throws ConfigurationError if a version is none that this release understands; then nothing of
   *   it is in force
   */
  apply({ revision, versions, stops }: PolicyState): void {
    const findings = versions.flatMap((version) =>
      (version.policies ?? []).flatMap((policy) =>
        policyShapeFindings(policy, placeOfVersion(version)),
      ),
    );
    if (findings.length > 0) throw new ConfigurationError(findings);
    for (const { tenant, policies, endorsed } of versions) {
      if (policies) this.put.set(tenant, this.compiledFor(tenant, policies));
      else this.put.delete(tenant);
      if (tenant !== undefined) this.always.set(tenant, endorsed ?? []);
    }
    const isReleased = this.stops.some(
      ({ stopId }) => !stops.some((stop) => stop.stopId === stopId),
    );
    this.stops = stops;
    this.storeRevision = revision;
    this.changed();
    for (const { subject, interrupt } of this.underWay) if (this.stopOf(subject)) interrupt();
    if (isReleased) this.released$.next();
  }

  /** Relies on what is in force until then, by `performance.now()`. */
  relyUntil(time: number): void {
    this.reliableUntil = time;
  }

  /** True while calls may be made by what is in force. */
  get isReliable(): boolean {
    return this.reliableUntil === Infinity || performance.now() < this.reliableUntil;
  }

  /** Returns the stop that a call is under; undefined where it is under none. */
  stopOf(subject: StoppableCall): PolicyStop | undefined {
    return this.stops.length === 0 ? undefined : this.stops.find((stop) => isTarget(stop, subject));
  }

  /** Tells whether a tool is stopped for a tenant, so that what waits for it is held. */
  isHeld(tenant: string, declaredId: string): boolean {
    const origin = this.catalog.originOf(declaredId) ?? { source: '', trusted: false };
    return this.stopOf({ declaredId, origin, actor: { tenant, roles: [] } }) !== undefined;
  }

  /**
   * The stops in force that are about a scope: those of a tenant and of all, or where no tenant is
   * named every one.
   */
  stopsIn({ tenant }: PolicyScope): readonly PolicyStop[] {
    return tenant === undefined
      ? this.stops
      : this.stops.filter((stop) => stop.tenant === undefined || stop.tenant === tenant);
  }

  /**
   * The denial of what is stopped. For an application with an engine of its own it is all that is
   * asked here.
   */
  stopRuling(subject: PolicySubject): Decision | undefined {
    const stop = this.stopOf(subject);
    return (
      stop && {
        kind: 'deny',
        rule: `stop ${stop.stopId}`,
        reason: STOPPED,
        policyVersion: `stop ${stop.stopId}`,
        isStopped: true,
      }
    );
  }

  /**
   * Refuses a call by policies that may not be in force any more.
   *
   * @throws StorageUnavailableError for any call but a read of a trusted tool
   */
  assertReliable({ effect, origin }: PolicySubject): void {
    if (this.isReliable || (effect === 'read_only' && origin.trusted)) return;
    throw new StorageUnavailableError(
      'The policy in force could not be read for 5 seconds, so the call was not made.',
    );
  }

  /**
   * Returns an engine that decides as this one would with the policies of a version in force in its
   * scope. Stops are no part of it: they pass.
   */
  with({
    tenant: scope,
    policies,
    endorsed = [],
  }: Pick<PolicyVersion, 'tenant' | 'policies' | 'endorsed'>): PolicyEngine {
    const put = this.compiledFor(scope, policies ?? (scope === undefined ? this.initial : []));
    const application = scope === undefined ? put : this.application();
    const vouching = application.map(({ policy }) => policy);
    const ownOf = (tenant: string): readonly CompiledPolicy[] =>
      scope === tenant ? put : (this.put.get(tenant) ?? []);
    const always = (tenant: string): readonly EndorsedArgument[] | undefined =>
      scope === tenant ? endorsed : this.always.get(tenant);
    return {
      decide: (subject) => {
        const { tenant } = subject.actor;
        return decide([...ownOf(tenant), ...application], alwaysTrusting(always(tenant), subject));
      },
      vouchedFor: (declaredId) => vouchedBy(vouching, declaredId),
    };
  }

  /**
   * Compiles the policies of the application, which have a level of flow together, or those of a
   * tenant, which narrow them.
   */
  private compiledFor(
    tenant: string | undefined,
    policies: readonly Policy[],
  ): readonly CompiledPolicy[] {
    if (tenant !== undefined) {
      const compiled = this.compiled(policies);
      for (const { policy } of compiled)
        this.validators.distrust(...(policy.requireApproval ?? []).map((rule) => rule.arguments));
      return compiled;
    }
    const isNamed = policies.some(({ flow, shadow }) => flow !== undefined && !shadow);
    return policies.map(
      (policy) =>
        new CompiledPolicy(
          policy,
          this.validators,
          isNamed && !policy.shadow ? 'off' : DEFAULT_FLOW,
        ),
    );
  }

  /** Compiles policies that narrow others, such as those of a run. */
  compiled(policies: readonly Policy[]): readonly CompiledPolicy[] {
    return policies.map((policy) => new CompiledPolicy(policy, this.validators));
  }

  private inForceFor(tenant: string): readonly CompiledPolicy[] {
    const own = this.put.size > 0 ? this.put.get(tenant) : undefined;
    if (!own) return this.application();
    const known = this.together.get(tenant);
    if (known) return known;
    // the narrower first: where all allow, the record names it
    const all = [...own, ...this.application()];
    this.together.set(tenant, all);
    return all;
  }

  private application(): readonly CompiledPolicy[] {
    const put = this.put.get(undefined);
    if (put) return put;
    this.own ??= this.compiledFor(undefined, this.initial);
    return this.own;
  }

  private changed(): void {
    this.together.clear();
    this.counted = undefined;
    this.changes += 1;
    this.changed$.next();
  }
}

/** A call under way, and what interrupts it. */
export interface CallUnderWay {
  readonly subject: StoppableCall;
  readonly interrupt: () => void;
}

const STOPPED = 'An operator has stopped it.';
