import { afterEach, describe, expect, it } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import { type DirectiveEvent, DirectiveService } from '@toolloop/core/directives';
import { AuditStore, CallJournal, MemoryAuditStore } from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import { troubled } from '@toolloop/testing';
import { alice, bob, desk, type DeskOptions, eventsOf, once, until, world } from './bench.js';

const SECRET = 'permission denied for table audit at /var/lib/postgresql';
const FOREVER = Object.assign(new Error(SECRET), { code: '42501' });

type World = ReturnType<typeof world>;

/** The store that fails while it is broken, and how often it has refused. */
interface Breaking {
  isBroken: boolean;
  refused: number;
  error: Error;
}

/**
 * A place before the effect at which a store can fail; it is broken once the directive was
 * requested.
 */
const PLACES: readonly (readonly [string, (breaking: Breaking, shared: World) => DeskOptions])[] = [
  [
    'the audit (append)',
    (breaking) => ({
      providers: [
        { provide: AuditStore, useValue: broken(new MemoryAuditStore(), 'append', breaking) },
      ],
    }),
  ],
  [
    'the journal (acquire)',
    (breaking, shared) => ({ providers: [journal(shared, 'acquire', breaking)] }),
  ],
  [
    'the journal (acquire and find)',
    (breaking, shared) => ({ providers: [wholeJournal(shared, breaking)] }),
  ],
];

function broken<Store extends object>(store: Store, method: string, breaking: Breaking): Store {
  const answer = (): Promise<never> => {
    breaking.refused += 1;
    return Promise.reject(breaking.error);
  };
  return troubled(store, { method, when: () => breaking.isBroken, answer });
}

function journal({ journal: store }: World, method: string, breaking: Breaking) {
  return { provide: CallJournal, useValue: broken<CallJournal>(store, method, breaking) };
}

function wholeJournal({ journal: store }: World, breaking: Breaking) {
  const refusing = broken<CallJournal>(store, 'acquire', breaking);
  return {
    provide: CallJournal,
    useValue: troubled(refusing, {
      method: 'find',
      when: () => breaking.isBroken,
      answer: () => Promise.reject(breaking.error),
    }),
  };
}

const opened: TestingModule[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((module) => module.close()));
});

/** Has somebody request a refund, and performs it while a store is broken. */
async function performedWith(
  place: (breaking: Breaking, shared: World) => DeskOptions,
  error: Error,
  who: readonly (typeof alice)[] = [alice],
) {
  const shared = world();
  const breaking: Breaking = { isBroken: false, refused: 0, error };
  const asking = await desk(
    who.flatMap(() => once),
    { shared, directives: { perform: false } },
  );
  for (const one of who) await asking.run(one);
  await asking.module.close();
  breaking.isBroken = true;
  const performing = await desk(once, {
    shared,
    directives: { firstDelayMs: 1, longestDelayMs: 4_000 },
    ...place(breaking, shared),
  });
  opened.push(performing.module);
  return { ...performing, breaking, seen: eventsOf(performing.service) };
}

describe.each(PLACES)('a directive before whose effect a store fails: %s', (_, place) => {
  it('is put off with growing pauses, ten times, then waits for an operator, and is performed once by then', async () => {
    const {
      until: status,
      service,
      bank,
      breaking,
      seen,
      logger,
    } = await performedWith(place, FOREVER);
    const parked = await status('dead');
    expect(parked).toMatchObject({
      attempts: 0,
      failure: { code: 'storage_unavailable', correlationId: expect.any(String) },
    });
    expect(JSON.stringify(parked)).not.toMatch(/permission denied|postgresql|execution_failed/);
    expect([bank.effects, startedIn(seen)]).toEqual([[], 10]);
    expect(pausesIn(seen).at(-1)).toBeGreaterThanOrEqual(2 ** 8);
    expect(JSON.stringify(logger.lines)).toContain('put off 10 times');
    breaking.isBroken = false;
    await service.redrive(parked.directiveId, alice);
    expect(await status('succeeded')).toMatchObject({ attempts: 1 });
    expect(bank.effects).toHaveLength(1);
  });

  it('is performed once, by itself, where the store comes back meanwhile, with all its attempts', async () => {
    const { until: status, bank, breaking, seen } = await performedWith(place, FOREVER);
    await reached(() => startedIn(seen) >= 4);
    breaking.isBroken = false;
    expect(await status('succeeded')).toMatchObject({ attempts: 1 });
    expect(bank.effects).toHaveLength(1);
  });

  it('is cancelled while it is put off, and then not performed', async () => {
    const { until: status, service, bank, breaking, seen } = await performedWith(place, FOREVER);
    await reached(() => startedIn(seen) >= 5);
    await cancelled(service, breaking);
    await status('cancelled');
    expect(bank.effects).toEqual([]);
  });

  it('waits for the operators of its own tenant, and that of another tenant is resumed by theirs', async () => {
    const { service, bank, breaking } = await performedWith(place, FOREVER, [alice, bob]);
    const [hers, his] = [await until(service, 'dead', alice), await until(service, 'dead', bob)];
    breaking.isBroken = false;
    await expect(service.redrive(hers.directiveId, bob)).rejects.toMatchObject({
      code: 'not_found',
    });
    await service.redrive(his.directiveId, bob);
    await until(service, 'succeeded', bob);
    expect((await service.get(hers.directiveId, alice)).status).toBe('dead');
    expect(bank.effects.map(({ tenant }) => tenant)).toEqual(['globex']);
    await service.redrive(hers.directiveId, alice);
    await until(service, 'succeeded', alice);
    expect(bank.effects.map(({ tenant }) => tenant)).toEqual(['globex', 'acme']);
  });
});

/** Cancels between two attempts: what is in hand cannot be cancelled. */
async function cancelled(service: DirectiveService, breaking: Breaking): Promise<void> {
  for (;;) {
    const [one] = await service.list(alice);
    if (one?.status !== 'pending') await new Promise((resolve) => setTimeout(resolve, 1));
    else {
      breaking.isBroken = false;
      return void (await service.cancel(one.directiveId, alice));
    }
  }
}

function startedIn(events: readonly DirectiveEvent[]): number {
  return events.filter(({ event }) => event === 'started').length;
}

/** The milliseconds between the end of an attempt and the beginning of the next. */
function pausesIn(events: readonly DirectiveEvent[]): readonly number[] {
  return events.flatMap(({ event, at }, index) => {
    const before = events[index - 1];
    return event === 'started' && before?.event === 'retried'
      ? [Date.parse(at) - Date.parse(before.at)]
      : [];
  });
}

async function reached(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1));
}

describe('the undoing of a directive before whose effect a store fails', () => {
  it('is put off as well, then waits for an operator, and is undone once by then', async () => {
    const shared = world();
    const breaking: Breaking = { isBroken: false, refused: 0, error: FOREVER };
    const options = { firstDelayMs: 1, longestDelayMs: 4_000 };
    const {
      service,
      until: status,
      run,
      bank,
      module,
    } = await desk(once, {
      shared,
      directives: options,
      providers: [wholeJournal(shared, breaking)],
    });
    opened.push(module);
    await run();
    const { directiveId } = await status('succeeded');
    breaking.isBroken = true;
    await service.cancel(directiveId, alice);
    expect(await status('dead')).toMatchObject({
      task: 'compensate',
      failure: { code: 'storage_unavailable' },
    });
    breaking.isBroken = false;
    await service.redrive(directiveId, alice);
    await status('compensated');
    expect(bank.effects.map(({ did }) => did)).toEqual(['refund', 'undo']);
  });
});

describe('a directive whose outcome was unknown before a store failed', () => {
  it('waits as one of unknown outcome, and is not performed without an answer of a person', async () => {
    const shared = world();
    const breaking: Breaking = { isBroken: false, refused: 0, error: FOREVER };
    shared.bank.after = () => {
      breaking.isBroken = true;
      throw new Error('The line was cut.');
    };
    const options = { firstDelayMs: 1, longestDelayMs: 4_000 };
    const audit = broken(new MemoryAuditStore(), 'append', breaking);
    const {
      service,
      until: status,
      run,
      bank,
      module,
    } = await desk(once, {
      shared,
      directive: { maybeRan: 'repeat' },
      directives: options,
      providers: [{ provide: AuditStore, useValue: audit }],
    });
    opened.push(module);
    await run();
    const waiting = await status('unknown_outcome');
    breaking.isBroken = false;
    await expect(service.redrive(waiting.directiveId, alice)).rejects.toMatchObject({
      code: 'outcome_needed',
    });
    await service.redrive(waiting.directiveId, alice, { tookPlace: true });
    await status('succeeded');
    expect(bank.effects).toHaveLength(1);
  });
});

describe('a directive before whose effect a store does not answer for now', () => {
  it('is performed once the store answers, after pauses and without an attempt that counts', async () => {
    const {
      until: status,
      bank,
      breaking,
      seen,
    } = await performedWith(
      PLACES[0]?.[1] ?? (() => ({})),
      new StorageUnavailableError(SECRET, { mayPass: false }),
    );
    await reached(() => startedIn(seen) >= 3);
    breaking.isBroken = false;
    expect(await status('succeeded')).toMatchObject({ attempts: 1 });
    expect(bank.effects).toHaveLength(1);
  });
});
