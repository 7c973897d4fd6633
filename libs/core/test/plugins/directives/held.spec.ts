import { describe, expect, it } from '@jest/globals';
import { firstValueFrom, Subject } from 'rxjs';
import {
  type CallJournal,
  type JournalClaim,
  type JournalHold,
  type JournalStart,
  type Lease,
  MemoryCallJournal,
  versionOf,
} from '@toolloop/core/stores';
import { alice, desk, once, world } from './bench.js';

const quiet = (ms = 30) => new Promise((resolve) => setTimeout(resolve, ms));

/** A journal that has taken a key, and tells so when the spec says. */
class SlowJournal extends MemoryCallJournal {
  readonly taken: string[] = [];
  readonly gates = [new Subject<string>(), new Subject<string>()];

  override async acquire(start: JournalStart): Promise<JournalClaim> {
    const gate = this.gates[this.taken.length];
    this.taken.push(start.owner);
    const isFirst = this.taken.length === 1;
    const claim = isFirst ? await super.acquire(start) : undefined;
    if (gate) await firstValueFrom(gate);
    return claim ?? super.acquire(start);
  }
}

async function eventually(holds: () => boolean): Promise<void> {
  for (const end = Date.now() + 240_000; !holds(); await quiet(2))
    if (Date.now() > end) throw new Error('In vain.');
}

/** Somebody who has the key and not yet the word that they may go on. */
async function between(firstLeaseMs: number) {
  const shared = world();
  const journal = new SlowJournal();
  const acquire = shared.directives.acquire.bind(shared.directives);
  let forMs = firstLeaseMs;
  shared.directives.acquire = async (reference, { owner }) => {
    const acquired = await acquire(reference, { owner, forMs });
    if (acquired) forMs = 60_000;
    return acquired;
  };
  const slow = await desk(once, { shared: { ...shared, journal } });
  await slow.run();
  await eventually(() => journal.taken.length === 1);
  const { directiveId } = await slow.until('performing');
  return { ...slow, shared, journal, reference: { tenant: 'acme', directiveId } };
}

describe("the holder of a directive's key without the directive", () => {
  it('leaves its effect to who claimed it meanwhile, though that one has not begun', async () => {
    const { journal, shared, until, bank } = await between(40);
    const other = await desk(once, { shared: { ...shared, journal } });
    await eventually(() => journal.taken.length === 2);
    journal.gates[0]?.next('go on');
    await quiet();
    expect(bank.effects).toEqual([]);
    journal.gates[1]?.next('go on');
    await until('succeeded');
    expect(bank.effects).toHaveLength(1);
    await other.module.close();
  });

  it('has no effect where it was taken out of their hands', async () => {
    const { journal, shared, bank, reference } = await between(60_000);
    const held = await shared.directives.find(reference);
    if (held)
      await shared.directives.change(versionOf(held), { event: 'cancelled', status: 'cancelled' });
    journal.gates[0]?.next('go on');
    await quiet();
    expect(bank.effects).toEqual([]);
    expect(await shared.directives.find(reference)).toMatchObject({ status: 'cancelled' });
  });
});

it('a tool that takes directives of another type by now is not handed the ones of before', async () => {
  const shared = world();
  const asking = await desk(once, { directives: { perform: false }, shared });
  await asking.run();
  const { until, bank } = await desk(once, { shared, directive: { type: 'order.writeoff' } });
  expect((await until('dead')).failure?.code).toBe('tool_gone');
  expect(bank.effects).toEqual([]);
});

it('a key is released while the decider holds the directive, so that no other process takes it in between', async () => {
  const shared = world();
  const seen: unknown[] = [];
  class WatchedJournal extends MemoryCallJournal {
    override async steal(...args: Parameters<CallJournal['steal']>): Promise<Lease | undefined> {
      await this.look();
      return super.steal(...args);
    }

    override async release(hold: JournalHold): Promise<void> {
      await this.look();
      return super.release(hold);
    }

    private async look(): Promise<void> {
      const [one] = await shared.directives.list({ tenant: 'acme' });
      seen.push(
        one?.status,
        one && (await shared.directives.acquire(one.intent, { owner: 'another', forMs: 1 })),
      );
    }
  }
  shared.bank.before = () => {
    shared.bank.before = () => undefined;
    throw new Error('connection reset');
  };
  const { run, until, service, bank } = await desk(once, {
    shared: { ...shared, journal: new WatchedJournal() },
  });
  await run();
  const { directiveId } = await until('unknown_outcome');
  seen.splice(0);
  await service.redrive(directiveId, alice, { tookPlace: false });
  expect(seen).toEqual(['performing', undefined, 'performing', undefined]);
  await until('succeeded');
  expect(bank.effects).toHaveLength(1);
});
