import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { ToolError } from '@toolloop/core';
import type { DirectiveView } from '@toolloop/core/directives';
import {
  CallJournal,
  DirectiveStore,
  type JournalClaim,
  type JournalHold,
  type JournalOutcome,
  type JournalStart,
} from '@toolloop/core/stores';
import { ScriptedModel, text } from '@toolloop/testing';
import { cases } from '../../../../../test/cases.js';
import { alice, Bank, desk, refund, world } from './bench.js';

const never = <Result>(): Promise<Result> => new Promise<Result>(() => undefined);
const quiet = (ms = 15) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * When a process dies: before or after the so-manieth thing it does outside of itself. From then on
 * nothing it does has an end.
 */
class Fate {
  private isDead = false;

  constructor(
    private left: number,
    private readonly when: 'before' | 'after',
  ) {}

  async pass<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.isDead) return never();
    this.left -= 1;
    if (this.left > 0) return work();
    this.isDead = true;
    if (this.when === 'after') await work();
    return never();
  }
}

/**
 * The stores as a process that may die sees them. Every lease is over at once, so that each
 * directive is anybody's at any moment.
 */
class MortalStore extends DirectiveStore {
  constructor(
    private readonly inner: DirectiveStore,
    private readonly fate: Fate,
  ) {
    super();
  }

  get changes$() {
    return this.inner.changes$;
  }

  override add: DirectiveStore['add'] = (intent, first) =>
    this.fate.pass(() => this.inner.add(intent, first));
  override find: DirectiveStore['find'] = (reference) =>
    this.fate.pass(() => this.inner.find(reference));
  override list: DirectiveStore['list'] = (query) => this.inner.list(query);
  override acquire: DirectiveStore['acquire'] = (reference, { owner }) =>
    this.fate.pass(() => this.inner.acquire(reference, { owner, forMs: 3 }));
  override renew: DirectiveStore['renew'] = (hold) =>
    this.fate.pass(() => this.inner.renew(hold, 3));
  override change: DirectiveStore['change'] = (from, { dueInMs, lease, ...change }) => {
    const due = {
      ...(dueInMs !== undefined && { dueInMs: Math.min(dueInMs, 3) }),
      ...(lease && { lease: { ...lease, forMs: 3 } }),
    };
    return this.fate.pass(() => this.inner.change(from, { ...change, ...due }));
  };
  override work: DirectiveStore['work'] = (perform, concurrency) =>
    this.inner.work(perform, concurrency);
}

class MortalJournal extends CallJournal {
  constructor(
    private readonly inner: CallJournal,
    private readonly fate: Fate,
  ) {
    super();
  }

  override acquire(start: JournalStart): Promise<JournalClaim> {
    return this.fate.pass(() => this.inner.acquire(start));
  }

  override find: CallJournal['find'] = (call) => this.fate.pass(() => this.inner.find(call));

  override steal: CallJournal['steal'] = (key, request) =>
    this.fate.pass(() => this.inner.steal(key, request));

  override finish(hold: JournalHold, outcome: JournalOutcome): Promise<void> {
    return this.fate.pass(() => this.inner.finish(hold, outcome));
  }

  override release(hold: JournalHold): Promise<void> {
    return this.fate.pass(() => this.inner.release(hold));
  }
}

type World = ReturnType<typeof world>;

/** A process on the shared stores; what its refund meets is played in order. */
function started(shared: World, fate: Fate, trouble: readonly Trouble[]) {
  const bank = new Bank(shared.bank.effects);
  const left = [...trouble];
  let latest: Trouble = 'none';
  bank.before = () =>
    fate.pass(() => {
      latest = left.shift() ?? 'none';
      if (latest === 'refused') throw new ToolError('Closed.');
      if (latest === 'busy') throw new ToolError('Busy.', { retryable: true });
      return Promise.resolve();
    });
  bank.after = () =>
    fate.pass(() =>
      latest === 'lost' ? Promise.reject(new Error('the answer was lost')) : Promise.resolve(),
    );
  const own = {
    ...shared,
    bank,
    directives: new MortalStore(shared.directives, fate),
    journal: new MortalJournal(shared.journal, fate),
  };
  return desk([], {
    shared: own,
    limits: { runMs: 500, toolCallMs: 300 },
    directives: { firstDelayMs: 1, longestDelayMs: 2 },
  });
}

type Trouble = 'none' | 'busy' | 'refused' | 'lost';
type Started = Awaited<ReturnType<typeof desk>>;

const ask = (process: Started) =>
  process.loop
    .open({
      prompt: 'Refund it.',
      ...alice,
      requestId: 'one',
      model: new ScriptedModel([refund(), text('Done.')]),
    })
    .result.catch(() => undefined);

/** What a person does who looks at the directive: nobody says what is not so. */
async function decided(
  process: Started,
  { bank }: World,
  deed: 'redrive' | 'cancel',
): Promise<void> {
  const [one] = await process.service.list(alice);
  if (!one) return;
  const effect = one.task === 'perform' ? 'refund' : 'undo';
  const tookPlace = bank.effects.some(({ did }) => did === effect);
  const doing =
    deed === 'cancel'
      ? process.service.cancel(one.directiveId, alice)
      : process.service.redrive(one.directiveId, alice, { tookPlace });
  await Promise.race([doing.catch(() => undefined), quiet()]);
}

/** The directive once nobody is at it any more, however busy the machine is. */
async function settled({ service }: Started): Promise<DirectiveView | undefined> {
  for (const end = Date.now() + 240_000; ;) {
    const [one] = await service.list(alice);
    if (one?.status !== 'pending' && one?.status !== 'performing') return one;
    if (Date.now() > end) throw new Error(`It is still ${one.status}.`);
    await quiet(5);
  }
}

const trouble = fc.array(fc.constantFrom<Trouble>('none', 'busy', 'refused', 'lost'), {
  maxLength: 4,
});
const life = fc.record({
  dies: fc.integer({ min: 1, max: 14 }),
  when: fc.constantFrom('before' as const, 'after' as const),
  requests: fc.integer({ min: 0, max: 3 }),
  deeds: fc.array(fc.constantFrom('redrive' as const, 'cancel' as const), { maxLength: 2 }),
  trouble,
});

describe('invariant 13', () => {
  it('invariant 13: whatever dies between any two steps, a key has at most one effect, and what is said of it is so', async () => {
    const property = fc.asyncProperty(
      fc.array(life, { minLength: 1, maxLength: 4 }),
      async (lives) => {
        const shared = world();
        for (const { dies, when, requests, deeds, trouble: met } of lives) {
          const process = await started(shared, new Fate(dies, when), met);
          const asked = Array.from({ length: requests }, () => ask(process));
          await Promise.race([Promise.all(asked), quiet()]);
          await quiet();
          for (const deed of deeds) await decided(process, shared, deed);
          await quiet();
        }
        const survivor = await started(shared, new Fate(Infinity, 'before'), []);
        await ask(survivor);
        const one = await settled(survivor);
        const counted = ['refund', 'undo'].map(
          (what) => shared.bank.effects.filter(({ did }) => did === what).length,
        );
        await survivor.module.close();
        expect(EXPECTED[`${one?.task} ${one?.status}`]).toContainEqual(counted);
      },
    );
    await fc.assert(property, { numRuns: cases(25) });
  });
});

/** How many refunds, and how many undone, each status may stand for. */
const EXPECTED: Readonly<Record<string, readonly (readonly number[])[]>> = {
  'perform succeeded': [[1, 0]],
  'perform dead': [[0, 0]],
  'perform cancelled': [[0, 0]],
  'perform unknown_outcome': [
    [0, 0],
    [1, 0],
  ],
  'compensate compensated': [[1, 1]],
  'compensate dead': [[1, 0]],
  'compensate unknown_outcome': [
    [1, 0],
    [1, 1],
  ],
};
