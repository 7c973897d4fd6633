import { randomUUID } from 'node:crypto';
import { beforeAll, expect, it } from '@jest/globals';
import {
  type CallJournal,
  type JournalStart,
  MemoryCallJournal,
  type RunHold,
} from '@toolloop/core/stores';
import { type Database, JobQueue, SqlCallJournal, SqlRunLog } from '@toolloop/durable';
import { onEachDatabase } from './each-database.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
const NOTHING = { entries: [], events: [] };
const DONE = { status: 'succeeded', content: 'Paid.', ui: null } as const;
const entry = (key: string) => ({ type: 'step' as const, key, value: {} });

/** Keeps calls elsewhere as well. */
class ForeignJournal extends SqlCallJournal {}

function start({ runId }: RunHold, key: string, tenant = 'acme'): JournalStart {
  return {
    tenant,
    idempotencyKey: `${runId} ${key}`,
    runId,
    declaredId: 'bank__pay',
    args: '{}',
    owner: randomUUID(),
    forMs: 60_000,
  };
}

onEachDatabase('the calls of a run', (open: () => Database) => {
  let log: SqlRunLog;
  let journal: CallJournal;
  beforeAll(() => {
    log = new SqlRunLog(open(), new JobQueue(open()));
    journal = new SqlCallJournal(open());
  });

  async function begun(tenant = 'acme'): Promise<RunHold> {
    const runId = randomUUID();
    return {
      runId,
      ...(await log.begin(
        { runId, tenant, actorId: 'alice', request: {} },
        { owner: 'one', forMs: 60_000 },
      )),
    };
  }

  it('are kept with its writes where the journal is in its database, and nowhere else', () => {
    expect(log.keepsCallsOf(journal)).toBe(true);
    for (const other of [new MemoryCallJournal(), new ForeignJournal(open())])
      expect(log.keepsCallsOf(other)).toBe(false);
  });

  it('begin with its write, each key once, and finish with another', async () => {
    const hold = await begun();
    const [one, two] = [start(hold, '1'), start(hold, '2\0')];
    const [first, second] =
      (await log.append(hold, {
        ...NOTHING,
        entries: [entry('model:1')],
        calls: { begun: [one, two], finished: [] },
      })) ?? [];
    expect([first, second]).toMatchObject([
      { owner: one.owner, epoch: 1 },
      { owner: two.owner, epoch: 1 },
    ]);
    const again = { ...one, owner: randomUUID() };
    expect(
      await log.append(hold, {
        ...NOTHING,
        calls: { begun: [again, start(hold, '3')], finished: [] },
      }),
    ).toMatchObject([undefined, { epoch: 1 }]);
    const outcome = { ...DONE, content: 'A NUL: \0, half a pair: \ud800' };
    await log.append(hold, {
      ...NOTHING,
      entries: [entry('tool:1')],
      calls: {
        begun: [],
        finished: [
          { hold: { ...two, epoch: 1 }, outcome },
          { hold: { ...one, epoch: 2 }, outcome: DONE },
        ],
      },
    });
    expect(await journal.find(two)).toEqual({ status: 'finished', outcome });
    // another epoch has it
    expect(await journal.find(one)).toMatchObject({ status: 'in_progress' });
    expect((await log.read(hold.runId)).map(({ key }) => key)).toEqual(['model:1', 'tool:1']);
  });

  it('do not begin in a process that has lost the run, and finish all the same', async () => {
    const hold = await begun();
    const [one, two] = [start(hold, '1'), start(hold, '2')];
    await log.append(hold, { ...NOTHING, calls: { begun: [one], finished: [] } });
    await log.renew([hold], 0);
    await log.acquire(hold.runId, { owner: 'two', forMs: 60_000 });
    const finished = [{ hold: { ...one, epoch: 1 }, outcome: DONE }];
    await expect(
      log.append(hold, { ...NOTHING, entries: [entry('late')], calls: { begun: [two], finished } }),
    ).rejects.toThrow('not this process');
    expect([await journal.find(one), await journal.find(two)]).toEqual([
      { status: 'finished', outcome: DONE },
      undefined,
    ]);
    expect(await log.read(hold.runId)).toEqual([]);
  });

  it('are those of their tenant alone', async () => {
    const [hold, other] = [await begun(), await begun('globex')];
    const [ours, theirs] = [start(hold, '1'), { ...start(hold, '1'), tenant: 'globex' }];
    await log.append(hold, { ...NOTHING, calls: { begun: [ours], finished: [] } });
    const finished = [{ hold: { ...ours, tenant: 'globex', epoch: 1 }, outcome: DONE }];
    expect(
      await log.append(other, { ...NOTHING, calls: { begun: [theirs], finished } }),
    ).toMatchObject([{ owner: theirs.owner }]);
    expect([await journal.find(ours), await journal.find(theirs)]).toMatchObject([
      { status: 'in_progress' },
      { status: 'in_progress' },
    ]);
  });

  it('leave nothing behind where a write is refused', async () => {
    const hold = await begun();
    const one = start(hold, '1');
    const write = {
      ...NOTHING,
      entries: [entry('model:1')],
      calls: { begun: [{ ...one, tenant: 'a\0' }], finished: [] },
    };
    await expect(Promise.resolve().then(() => log.append(hold, write))).rejects.toThrow(
      'cannot be stored',
    );
    expect([await log.read(hold.runId), await journal.find(one)]).toEqual([[], undefined]);
  });
});
