import type { Finding } from '@toolloop/protocol';
import type { Subscription } from 'rxjs';
import {
  POLICY_TRUST_MS,
  type PolicySign,
  type PolicyState,
  type PolicyStore,
  type PolicyVersion,
} from '../../contracts/policy-store.js';
import type { RunLog } from '../../contracts/run-log.js';
import { Logger } from '../../findings/logger.js';
import { placeOfVersion } from '../../policy/place-of-version.js';
import type { DataPolicyEngine } from '../../policy/policy-engine.js';
import { droppedLevelFinding, readStoredVersion } from '../flow/dropped-levels.js';

/** Follows the store: what is in force here is what it has, for as long as it can be read. */
export class PolicyFeed {
  private readonly logger = new Logger('ToolPolicy');
  private readonly store: PolicyStore;
  private readonly runs: Pick<RunLog, 'wake'>;
  private sign: { readonly revision: number; readonly until: number } = {
    revision: 0,
    until: -Infinity,
  };
  private reading: Promise<void> | undefined;
  private isReadAgain = false;
  private unreadable: string | undefined;
  private endWatch: (() => Promise<void>) | undefined;
  private released: Subscription | undefined;

  constructor(
    { policies, runs }: { readonly policies: PolicyStore; readonly runs: Pick<RunLog, 'wake'> },
    private readonly inForce: DataPolicyEngine,
    private readonly findingsOf: (version: PolicyVersion, at: string) => readonly Finding[],
  ) {
    this.store = policies;
    this.runs = runs;
  }

  async start(): Promise<void> {
    this.released = this.inForce.released$.subscribe(() => void this.wakeHeld());
    this.endWatch = await this.store.watch((sign) => this.hear(sign));
    const asked = performance.now();
    await this.refresh();
    // The first sign of a store that is polled may come later: until then what has just been read
    // counts.
    if (this.sign.until === -Infinity) this.inForce.relyUntil(asked + POLICY_TRUST_MS);
  }

  async stop(): Promise<void> {
    this.released?.unsubscribe();
    await this.endWatch?.();
  }

  /** Reads what has changed; where it is being read already, once more after that. */
  refresh(): Promise<void> {
    this.isReadAgain = this.reading !== undefined;
    this.reading ??= this.readAll().finally(() => (this.reading = undefined));
    return this.reading;
  }

  private hear({ revision, forMs }: PolicySign): void {
    this.sign = { revision, until: performance.now() + forMs };
    if (revision <= this.inForce.storeRevision) this.rely();
    else
      this.refresh().catch((error: unknown) =>
        this.warn(`The policies that were put could not be read: ${String(error)}`),
      );
  }

  private async readAll(): Promise<void> {
    do {
      this.isReadAgain = false;
      const state = await this.store.read(this.inForce.storeRevision);
      if (state.revision !== this.inForce.storeRevision) this.apply(state);
      this.rely();
    } while (this.isReadAgain);
  }

  /**
   * Tools may be gone since a policy was put that names them: it holds for the others. A level of
   * flow may be gone as well: then the policy is read as one that is no laxer.
   */
  private apply(state: PolicyState): void {
    const versions = state.versions.map(readStoredVersion);
    this.inForce.apply({ ...state, versions });
    for (const [index, { policies = [] }] of state.versions.entries()) {
      const version = versions[index];
      if (!version) continue;
      const where = placeOfVersion(version);
      for (const policy of policies) this.warnOfLevel(droppedLevelFinding(policy, where));
      for (const { at, problem, remedy } of this.findingsOf(version, where))
        this.logger.warn(`${at}: ${problem} ${remedy}`);
    }
  }

  private warnOfLevel(finding: Finding | undefined): void {
    if (!finding) return;
    const { at, problem, remedy } = finding;
    this.logger.warn(`${at}: ${problem} It is read as 'taint', and no laxer. ${remedy}`);
  }

  /** A sign counts once what it tells of is in force here. */
  private rely(): void {
    if (this.sign.revision > this.inForce.storeRevision) return;
    this.inForce.relyUntil(this.sign.until);
    this.unreadable = undefined;
  }

  /** Said once, not with every sign. */
  private warn(problem: string): void {
    if (this.unreadable === problem) return;
    this.unreadable = problem;
    this.logger.error(problem);
  }

  private async wakeHeld(): Promise<void> {
    const runIds = [...this.inForce.heldRuns];
    this.inForce.heldRuns.clear();
    for (const runId of runIds)
      await this.runs
        .wake(runId)
        .catch((error: unknown) =>
          this.logger.warn(`The run ${runId} was held, and could not be woken.`, error),
        );
  }
}
