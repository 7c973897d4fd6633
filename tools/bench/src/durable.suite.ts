import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Pending, AuditEntry } from '@toolloop/core/stores';
import { SqlStores, openDatabase, type Database, type DurableOptions } from '@toolloop/durable';
import { measureRuns, type RunFigures } from './durable-runs.js';
import { inOwnDatabase } from './own-database.js';
import type { Section, Skip, Suite, Table } from './report.js';
import { compare, median, repeat, type Contender, type Samples } from './sampling.js';

const TIMES = 50;
const SERVER = process.env['TOOLLOOP_TEST_POSTGRES'];

/** The cost of storing things, and runs, in a database. */
export const durableSuite: Suite = {
  name: 'durable',
  async run(): Promise<Section> {
    const skipped: Skip[] =
      SERVER === undefined
        ? [{ what: 'PostgreSQL', why: 'TOOLLOOP_TEST_POSTGRES is not set' }]
        : [];
    const measured = [
      await onPglite(),
      ...(SERVER === undefined ? [] : [await inOwnDatabase(SERVER, onPostgres)]),
    ];
    return {
      title: 'keeping things, and runs',
      method: [
        `One after the other, ${TIMES} in a sample, by the clock: the database's time counts. Medians of the rounds; × insert is the median of the ratios within a round.`,
        'A plain insert is one row of 200 bytes by the same handle, committed by itself. PGlite is in a folder, and does not sync to the disk.',
        'Steps: runs of 50, kept and not kept, in one application with one journal; beginning and end of the run are shared out. The model takes no time.',
        'Waiting runs: some that were suspended here, and copies of one in the database. CPU of the whole process, database included where it is PGlite, over ten seconds.',
        'A start: the median of five processes that open a folder with a database in it.',
      ],
      tables: measured.flatMap(({ tables }) => tables),
      targets: measured.flatMap(({ targets }) => targets),
      skipped,
    };
  },
};

async function onPglite(): Promise<RunFigures> {
  const folder = await mkdtemp(join(tmpdir(), 'toolloop-bench-'));
  const dataDir = join(folder, 'data');
  try {
    const stores = await measureStores('PGlite', { dataDir });
    const runs = await measureRuns('PGlite', { dataDir });
    const start = {
      what: 'PGlite: a start on a folder that is there',
      value: await startOn(dataDir),
      unit: 'ms',
      atMost: 1_000,
    };
    return { tables: [stores, ...runs.tables], targets: [...runs.targets, start] };
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function startOn(dataDir: string): Promise<number> {
  const script = fileURLToPath(new URL('durable-start.process.js', import.meta.url));
  const took: number[] = [];
  await repeat(5, async () =>
    took.push(Number((await promisify(execFile)(process.execPath, [script, dataDir])).stdout)),
  );
  return median(took);
}

async function onPostgres(url: string): Promise<RunFigures> {
  const stores = await measureStores('PostgreSQL', { url });
  const runs = await measureRuns('PostgreSQL', { url });
  return { tables: [stores, ...runs.tables], targets: runs.targets };
}

async function measureStores(engine: string, durable: DurableOptions): Promise<Table> {
  const database = await openDatabase(durable);
  try {
    return await measure(engine, database);
  } finally {
    await database.close();
  }
}

async function measure(engine: string, database: Database): Promise<Table> {
  await database.query('create table plain (id text primary key, content text not null)');
  const samples = await compare(contenders(database, new SqlStores(database)), {
    rounds: 9,
    warmUp: 2,
  });
  return {
    title: engine,
    columns: [
      { key: 'what', title: 'what' },
      { key: 'statements', title: 'statements', digits: 0 },
      { key: 'ms', title: 'ms', digits: 2 },
      { key: 'ratio', title: '× insert', digits: 1 },
    ],
    rows: STATEMENTS.map(([what, statements]) => rowOf(samples, what, statements)),
  };
}

const STATEMENTS = [
  ['plain insert', 1],
  ['call: begin, finish', 2],
  ['audit: append', 1],
  ['approval: add, answer', 2],
] as const;

function rowOf(samples: Samples, what: string, statements: number): Table['rows'][number] {
  return {
    what,
    statements,
    ms: samples.of(what, 'wall') / 1000,
    ratio: samples.ratio(what, 'plain insert', 'wall'),
  };
}

function contenders(
  database: Database,
  { journal, audit, pending }: SqlStores,
): readonly Contender[] {
  const units = TIMES;
  const each = (name: string, work: (id: string) => Promise<unknown>): Contender => ({
    name,
    units,
    work: () => repeat(TIMES, () => work(randomUUID())),
  });
  return [
    each('plain insert', (id) =>
      database.query('insert into plain (id, content) values ($1, $2)', [id, 'x'.repeat(200)]),
    ),
    each('call: begin, finish', async (id) => {
      const hold = { tenant: 'acme', idempotencyKey: id, owner: id, epoch: 1 };
      await journal.acquire({
        ...hold,
        runId: id,
        declaredId: 'bank__pay',
        args: '{"amount":5}',
        forMs: 30_000,
      });
      await journal.finish(hold, { status: 'succeeded', content: 'Paid.', ui: { receipt: 1 } });
    }),
    each('audit: append', () =>
      audit.append('acme', (head) => entryAfter(head?.sequence ?? 0, head?.hash ?? '')),
    ),
    each('approval: add, answer', async (id) => {
      await pending.add(approvalOf(id));
      await pending.answer(id, {
        decision: 'approve',
        decidedBy: 'mia',
        decidedAt: '2026-01-01T00:00:00.000Z',
      });
    }),
  ];
}

function entryAfter(sequence: number, previousHash: string): AuditEntry {
  const stamp = {
    version: 1,
    entryId: randomUUID(),
    tenant: 'acme',
    sequence: sequence + 1,
    at: '2026-01-01T00:00:00.000Z',
    keyId: '1',
    previousHash,
  } as const;
  return {
    ...stamp,
    hash: `hash ${sequence}`,
    runId: 'run_1',
    toolCallId: 'call_1',
    step: 1,
    kind: 'denied',
    code: 'forbidden',
  };
}

function approvalOf(approvalId: string): Pending {
  const call = { runId: approvalId, toolCallId: 'call_1', declaredId: 'bank__pay' };
  const expiresAt = '2036-01-01T00:00:00.000Z';
  const request = {
    ...call,
    approvalId,
    step: 1,
    tool: 'bank__pay',
    args: { amount: 5 },
    reason: 'It is dear.',
  };
  return {
    id: approvalId,
    kind: 'approval',
    request: { ...request, expiresAt, mayEdit: false, mayRemember: false },
    binding: {
      ...call,
      tenant: 'acme',
      requesterId: 'alice',
      instanceId: undefined,
      argsHash: 'ab',
      policyVersion: 'v1',
    },
    admitted: [],
    rule: 'requireApproval[0]',
    createdAt: '2026-01-01T00:00:00.000Z',
    expiresAt,
  };
}
