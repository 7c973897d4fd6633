import { Subject } from 'rxjs';
import {
  KEPT_POLICY_VERSIONS,
  type PolicyPage,
  type PolicyScope,
  type PolicySign,
  type PolicyState,
  type PolicyStop,
  PolicyStore,
  type PolicyVersion,
} from '../contracts/policy-store.js';

/**
 * Keeps policies and stops for as long as the process lives: after a restart the policies of
 * `forRoot` are in force again, and nothing is stopped.
 */
export class MemoryPolicyStore extends PolicyStore {
  /** The versions by scope, the newest last. */
  private readonly versions = new Map<string | undefined, KeptVersion[]>();
  private readonly stops = new Map<string, PolicyStop>();
  private readonly changes$ = new Subject<void>();
  private revision = 0;

  override add(version: PolicyVersion): Promise<boolean> {
    const known = this.versions.get(version.tenant) ?? [];
    if (version.number !== (known.at(-1)?.version.number ?? 0) + 1) return Promise.resolve(false);
    const kept = [...known, { version, revision: this.revision + 1 }];
    this.versions.set(version.tenant, kept.slice(-KEPT_POLICY_VERSIONS));
    this.change();
    return Promise.resolve(true);
  }

  override find({ tenant }: PolicyScope, number: number): Promise<PolicyVersion | undefined> {
    const known = this.versions.get(tenant) ?? [];
    return Promise.resolve(known.find(({ version }) => version.number === number)?.version);
  }

  override list({
    tenant,
    limit,
    before = Infinity,
  }: PolicyPage): Promise<readonly PolicyVersion[]> {
    const known = (this.versions.get(tenant) ?? []).map(({ version }) => version).toReversed();
    return Promise.resolve(known.filter(({ number }) => number < before).slice(0, limit));
  }

  override stop(stop: PolicyStop): Promise<void> {
    if (!this.stops.has(stop.stopId)) {
      this.stops.set(stop.stopId, stop);
      this.change();
    }
    return Promise.resolve();
  }

  override release(stopId: string): Promise<boolean> {
    const wasInForce = this.stops.delete(stopId);
    if (wasInForce) this.change();
    return Promise.resolve(wasInForce);
  }

  override read(since: number): Promise<PolicyState> {
    const newest = [...this.versions.values()].flatMap((versions) => versions.at(-1) ?? []);
    const versions = newest
      .filter(({ revision }) => revision > since)
      .map(({ version }) => version);
    return Promise.resolve({ revision: this.revision, versions, stops: [...this.stops.values()] });
  }

  override watch(told: (sign: PolicySign) => void): Promise<() => Promise<void>> {
    const tell = (): void => told({ revision: this.revision, forMs: Infinity });
    const subscription = this.changes$.subscribe(tell);
    tell();
    return Promise.resolve(() => Promise.resolve(subscription.unsubscribe()));
  }

  private change(): void {
    this.revision += 1;
    this.changes$.next();
  }
}

/** A version, and the revision of its change. */
interface KeptVersion {
  readonly version: PolicyVersion;
  readonly revision: number;
}
