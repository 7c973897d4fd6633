import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import type { Lease, LeaseHold, LeaseRequest } from '@toolloop/core/stores';
import { atOnce, type ContractCase, type Trial } from './contract.js';

/**
 * Returns the behaviour that every store must show of what it leases: at most one holder, and
 * nothing kept of a former one.
 */
export function leaseCases<Store, Thing>(
  methods: LeaseMethods<Store, Thing>,
): readonly ContractCase<Store>[] {
  const { renew } = methods;
  const checks = new LeaseChecks(methods);
  return [
    {
      name: 'leases a thing to one of many owners who ask at once',
      check: (trial) => checks.leasesOnce(trial),
    },
    {
      name: 'gives the same owner its lease again, as after an answer that was lost',
      check: (trial) => checks.leasesAgain(trial),
    },
    { name: 'tells when a lease expires', check: (trial) => checks.tellsExpiry(trial) },
    {
      name: 'leaves an expired lease to its holder until a successor takes it',
      check: (trial) => checks.outlivesExpiry(trial),
    },
    {
      name: 'gives a successor the next epoch, and keeps nothing of the holder before it',
      check: (trial) => checks.fences(trial),
    },
    {
      name: 'refuses the owner and the epoch of another lease',
      check: (trial) => checks.comparesBoth(trial),
    },
    {
      name: 'leases what was released, and lets no one but the holder release it',
      check: (trial) => checks.releases(trial),
    },
    { name: 'leases nothing whose work has ended', check: (trial) => checks.endsWithWork(trial) },
    ...(renew
      ? [
          {
            name: 'renews a lease for its holder alone',
            check: (trial: Trial<Store>) => checks.renews(trial, renew),
          },
        ]
      : []),
    ...(methods.steal
      ? [
          {
            name: 'leases nothing again because its lease has expired',
            check: (trial: Trial<Store>) => checks.staysTaken(trial),
          },
        ]
      : []),
  ];
}

/** The methods by which a store leases one kind of thing. The cases below hold for all kinds. */
export interface LeaseMethods<Store, Thing> {
  /** Makes a thing that is free to be leased. */
  readonly make: (store: Store, tenant: string) => Promise<Thing>;
  /** `undefined` where another owner has the lease. */
  readonly acquire: (
    store: Store,
    thing: Thing,
    request: LeaseRequest,
  ) => Promise<Lease | undefined>;
  /** Leases a thing whose lease has expired to a successor. @default `acquire` */
  readonly steal?: (
    store: Store,
    thing: Thing,
    request: LeaseRequest,
  ) => Promise<Lease | undefined>;
  /** `false` for whom the lease is not. Absent where leases are not renewed. */
  readonly renew?: (store: Store, thing: Thing, hold: LeaseHold, forMs: number) => Promise<boolean>;
  readonly release: (store: Store, thing: Thing, hold: LeaseHold) => Promise<unknown>;
  /** Writes the end of the work on a thing. `true` where it was kept. */
  readonly write: (store: Store, thing: Thing, hold: LeaseHold) => Promise<boolean>;
}

/** A lease that is longer than any check. */
const LONG_MS = 600_000;
const FIRST: LeaseRequest = { owner: 'first', forMs: LONG_MS };
const SECOND: LeaseRequest = { owner: 'second', forMs: LONG_MS };
const THIRD: LeaseRequest = { owner: 'third', forMs: LONG_MS };

class LeaseChecks<Store, Thing> {
  constructor(private readonly methods: LeaseMethods<Store, Thing>) {}

  async leasesOnce(trial: Trial<Store>): Promise<void> {
    const thing = await this.methods.make(trial.store, trial.tenant);
    const asked = await atOnce(trial, 20, (store, index) =>
      this.methods.acquire(store, thing, { owner: `${index}`, forMs: LONG_MS }),
    );
    const [lease, ...others] = asked.filter((one) => one !== undefined);
    assert.ok(lease && others.length === 0, `${others.length + 1} owners have it`);
    assert.equal(await this.methods.write(trial.other, thing, lease), true);
  }

  async leasesAgain({ store, other, tenant }: Trial<Store>): Promise<void> {
    const thing = await this.methods.make(store, tenant);
    const first = await this.acquired(store, thing, FIRST);
    const again = await this.acquired(other, thing, FIRST);
    assert.deepEqual([again.owner, again.epoch], [first.owner, first.epoch]);
    assert.equal(await this.methods.acquire(other, thing, SECOND), undefined);
    assert.equal(await this.methods.write(other, thing, first), true);
  }

  /** The clock is that of the store, so the process allows it a minute. */
  async tellsExpiry({ store, tenant }: Trial<Store>): Promise<void> {
    const thing = await this.methods.make(store, tenant);
    const { expiresAt } = await this.acquired(store, thing, FIRST);
    assert.match(expiresAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.ok(Math.abs(Date.parse(expiresAt) - Date.now() - LONG_MS) < 60_000, expiresAt);
  }

  async outlivesExpiry({ store, other, tenant }: Trial<Store>): Promise<void> {
    const thing = await this.methods.make(store, tenant);
    const lease = await this.expired(store, thing);
    assert.equal(await this.methods.write(other, thing, lease), true);
  }

  async fences({ store, other, tenant }: Trial<Store>): Promise<void> {
    const { release, write } = this.methods;
    const thing = await this.methods.make(store, tenant);
    const first = await this.expired(store, thing);
    const second = await this.succeeded(other, thing, SECOND);
    assert.deepEqual([second.owner, second.epoch], [SECOND.owner, first.epoch + 1]);
    assert.equal(await write(store, thing, first), false);
    await release(store, thing, first);
    assert.equal((await this.methods.renew?.(store, thing, first, LONG_MS)) ?? false, false);
    assert.equal(await this.methods.acquire(store, thing, THIRD), undefined);
    assert.equal(await write(other, thing, second), true);
  }

  async comparesBoth({ store, other, tenant }: Trial<Store>): Promise<void> {
    const { release, write } = this.methods;
    const thing = await this.methods.make(store, tenant);
    const lease = await this.acquired(store, thing, FIRST);
    for (const hold of [
      { ...lease, owner: 'second' },
      { ...lease, epoch: lease.epoch + 1 },
      { ...lease, epoch: lease.epoch - 1 },
    ]) {
      assert.equal(await write(other, thing, hold), false);
      await release(other, thing, hold);
    }
    assert.equal(await write(other, thing, lease), true);
  }

  async releases({ store, other, tenant }: Trial<Store>): Promise<void> {
    const { release, write } = this.methods;
    const thing = await this.methods.make(store, tenant);
    const first = await this.acquired(store, thing, FIRST);
    await release(store, thing, first);
    const second = await this.acquired(other, thing, SECOND);
    assert.equal(second.owner, SECOND.owner);
    await release(store, thing, first); // late
    assert.equal(await write(store, thing, first), false);
    assert.equal(await write(other, thing, second), true);
  }

  async endsWithWork({ store, other, tenant }: Trial<Store>): Promise<void> {
    const { acquire, release, write } = this.methods;
    const thing = await this.methods.make(store, tenant);
    const lease = await this.acquired(store, thing, FIRST);
    assert.equal(await write(store, thing, lease), true);
    await release(store, thing, lease);
    assert.equal(await acquire(other, thing, SECOND), undefined);
    assert.equal(await this.succeed(other, thing, SECOND), undefined);
  }

  async renews(
    { store, other, tenant }: Trial<Store>,
    renew: NonNullable<LeaseMethods<Store, Thing>['renew']>,
  ): Promise<void> {
    const thing = await this.methods.make(store, tenant);
    const first = await this.acquired(store, thing, { owner: 'first', forMs: 50 });
    assert.equal(await renew(other, thing, { ...first, epoch: first.epoch + 1 }, LONG_MS), false);
    assert.equal(await renew(other, thing, { ...first, owner: 'second' }, LONG_MS), false);
    assert.equal(await renew(other, thing, first, LONG_MS), true);
    await wait(80);
    assert.equal(await this.succeed(other, thing, SECOND), undefined);
    assert.equal(await renew(store, thing, first, 1), true);
    await wait(20);
    const second = await this.succeeded(other, thing, SECOND);
    assert.equal(await renew(store, thing, first, LONG_MS), false);
    assert.equal(await this.methods.write(other, thing, second), true);
    assert.equal(await renew(other, thing, second, LONG_MS), false);
  }

  async staysTaken({ store, other, tenant }: Trial<Store>): Promise<void> {
    const thing = await this.methods.make(store, tenant);
    await this.expired(store, thing);
    assert.equal(await this.methods.acquire(other, thing, SECOND), undefined);
  }

  private async acquired(store: Store, thing: Thing, request: LeaseRequest): Promise<Lease> {
    return (
      (await this.methods.acquire(store, thing, request)) ??
      assert.fail('It was free to be leased.')
    );
  }

  private async expired(store: Store, thing: Thing): Promise<Lease> {
    const lease = await this.acquired(store, thing, { owner: 'first', forMs: 1 });
    await wait(20);
    return lease;
  }

  private succeed(store: Store, thing: Thing, request: LeaseRequest): Promise<Lease | undefined> {
    return (this.methods.steal ?? this.methods.acquire)(store, thing, request);
  }

  private async succeeded(store: Store, thing: Thing, request: LeaseRequest): Promise<Lease> {
    return (await this.succeed(store, thing, request)) ?? assert.fail('Its lease had expired.');
  }
}
