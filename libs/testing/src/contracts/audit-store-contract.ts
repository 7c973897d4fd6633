import assert from 'node:assert/strict';
import { type AuditDraft, AuditTrail, verifyAudit } from '@toolloop/core/audit';
import {
  type AuditEntry,
  type AuditHead,
  type AuditStore,
  MemoryRunLog,
} from '@toolloop/core/stores';
import {
  atOnce,
  AWKWARD_TEXTS,
  runContract,
  type Contract,
  type ContractRunner,
  type StoreUnderTest,
  type Trial,
} from './contract.js';

/** The behaviour that every `AuditStore` must show. */
export function auditStoreContract(
  name: string,
  make: () => Promise<StoreUnderTest<AuditStore>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

type AuditTrial = Trial<AuditStore>;

const KEY = 'a key of more than thirty-two bytes, for contracts';

function draft(tenant: string, runId = 'run_1'): AuditDraft {
  const subject = { actorId: 'ada', runId, toolCallId: 'call_1', step: 1, declaredId: 'bank__pay' };
  return { tenant, subject, event: { kind: 'denied', code: 'forbidden' } };
}

function record(store: AuditStore, tenant: string, runId?: string): Promise<void> {
  return new AuditTrail(store, { key: KEY }).record(draft(tenant, runId));
}

async function entriesOf(store: AuditStore, tenant: string): Promise<readonly AuditEntry[]> {
  return store.read(tenant, { from: 1, limit: 10_000 });
}

async function assertWhole(store: AuditStore, tenant: string, count: number): Promise<void> {
  const entries = await entriesOf(store, tenant);
  assert.equal(entries.length, count);
  const verification = await verifyAudit(entries, { keys: KEY });
  assert.ok(verification.valid, JSON.stringify(verification));
}

const CONTRACT: Contract<AuditStore> = {
  port: 'AuditStore',
  cases: [
    { name: 'makes one chain of concurrent appends', check: chainsAtOnce },
    {
      name: 'has an entry once that several processes settle while others append',
      check: settlesOnce,
    },
    { name: 'returns the head, and none for an empty chain', check: tellsHead },
    { name: 'reads the entries page by page, in order', check: pages },
    { name: 'keeps nothing when the entry cannot be made', check: keepsNothing },
    { name: 'keeps tenants apart', check: separatesTenants },
    { name: 'keeps awkward texts so that their hashes stay valid', check: keepsAwkwardTexts },
  ],
  restart: {
    before: ({ store, tenant }) => record(store, tenant),
    after: async (store, { tenant }) => {
      await record(store, tenant);
      await assertWhole(store, tenant, 2);
    },
  },
};

async function chainsAtOnce(trial: AuditTrial): Promise<void> {
  await atOnce(trial, 40, (store, index) => record(store, trial.tenant, `run_${index}`));
  await assertWhole(trial.store, trial.tenant, 40);
}

/** The log of runs, which all processes have, holds the entry that one could not append. */
async function settlesOnce(trial: AuditTrial): Promise<void> {
  const { store, tenant } = trial;
  await record(store, tenant, 'before');
  const log = new MemoryRunLog();
  const gone = new AuditTrail(store, { key: KEY }, log);
  gone.owe([gone.note(draft(tenant, 'owed'))], { owe: (entries) => void log.owe(entries) });
  await atOnce(trial, 12, (one, index) =>
    index % 3 > 0
      ? new AuditTrail(one, { key: KEY }, log).settle()
      : record(one, tenant, `run_${index}`),
  );
  await new AuditTrail(store, { key: KEY }, log).settle();
  assert.deepEqual(await log.listOwed({ limit: 9 }), []);
  await assertWhole(store, tenant, 6);
  const settled = (await entriesOf(store, tenant)).filter(({ runId }) => runId === 'owed');
  assert.equal(settled.length, 1);
}

async function tellsHead({ store, other, tenant }: AuditTrial): Promise<void> {
  assert.equal(await store.head(tenant), undefined);
  await record(store, tenant);
  await record(other, tenant);
  const [, last] = await entriesOf(store, tenant);
  const head = await store.head(tenant);
  assert.deepEqual([head?.tenant, head?.sequence, head?.hash], [tenant, 2, last?.hash]);
}

async function pages({ store, other, tenant }: AuditTrial): Promise<void> {
  for (let index = 0; index < 5; index += 1) await record(store, tenant);
  const read = async (from: number, limit: number): Promise<number[]> =>
    (await other.read(tenant, { from, limit })).map(({ sequence }) => sequence);
  assert.deepEqual(
    [await read(1, 2), await read(3, 2), await read(5, 2), await read(6, 2)],
    [[1, 2], [3, 4], [5], []],
  );
  assert.deepEqual(await read(-1, 1), [1]);
}

function tooLarge(): never {
  throw new Error('too large');
}

async function keepsNothing({ store, tenant }: AuditTrial): Promise<void> {
  await assert.rejects(async () => store.append(tenant, tooLarge), /too large/);
  assert.equal(await store.head(tenant), undefined);
  await record(store, tenant);
  await assertWhole(store, tenant, 1);
}

async function separatesTenants({ store, tenant, otherTenant }: AuditTrial): Promise<void> {
  await Promise.all([record(store, tenant), record(store, otherTenant), record(store, tenant)]);
  await assertWhole(store, tenant, 2);
  await assertWhole(store, otherTenant, 1);
  const heads: (AuditHead | undefined)[] = [];
  await store.append(otherTenant, (head) => {
    heads.push(head);
    const entry = { ...BARE, tenant: otherTenant, sequence: 2, previousHash: head?.hash ?? '' };
    return entry;
  });
  assert.deepEqual(
    heads.map((head) => head?.sequence),
    [1],
  );
}

const BARE = {
  version: 1,
  entryId: '00000000-0000-4000-8000-000000000000',
  at: '2026-01-01T00:00:00.000Z',
  keyId: '1',
  hash: 'ab',
  runId: 'run_1',
  toolCallId: 'call_1',
  step: 1,
  kind: 'denied',
  code: 'forbidden',
} as const;

async function keepsAwkwardTexts({ store, tenant }: AuditTrial): Promise<void> {
  for (const text of AWKWARD_TEXTS) await record(store, tenant, text);
  await assertWhole(store, tenant, AWKWARD_TEXTS.length);
  assert.deepEqual(
    (await entriesOf(store, tenant)).map(({ runId }) => runId),
    AWKWARD_TEXTS,
  );
}
