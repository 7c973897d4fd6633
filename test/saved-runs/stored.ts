import type { LoopEvent, Message } from '@toolloop/core';
import type {
  AuditEntry,
  ConversationKey,
  DirectiveRecord,
  JournalOutcome,
  JournalStart,
  LeftInput,
  Pending,
  RunLog,
  RunRecord,
  ToolLoopStores,
  UsageBatch,
} from '@toolloop/core/stores';
import type { KeptStores } from './kept-stores.js';

/** Everything that stores hold, in the form in which each port gives it and takes it. */
export interface Stored {
  readonly runs: readonly StoredRun[];
  readonly pending: readonly Pending[];
  readonly journal: readonly StoredCall[];
  readonly conversations: readonly StoredConversation[];
  readonly directives: readonly DirectiveRecord[];
  readonly audit: readonly AuditEntry[];
  readonly usage: readonly UsageBatch[];
}

interface StoredRun {
  readonly record: RunRecord;
  readonly entries: Awaited<ReturnType<RunLog['read']>>;
  readonly events: readonly LoopEvent[];
}

/** A call of the journal; without an outcome its process died before it was known. */
interface StoredCall {
  readonly call: Omit<JournalStart, 'owner' | 'forMs'>;
  readonly outcome?: JournalOutcome;
}

interface StoredConversation {
  readonly key: ConversationKey;
  readonly turns: readonly { readonly runId?: string; readonly messages: readonly Message[] }[];
  readonly left: readonly LeftInput[];
}

export const TENANT = 'acme';
/** More than any file has. */
export const ALL = { tenant: TENANT, limit: 1000 };

/** Reads everything that the stores hold of the tenant. */
export async function readStored(stores: KeptStores): Promise<Stored> {
  const records = await stores.runs.list(ALL);
  return toJson({
    runs: await Promise.all(
      records.toReversed().map(async (record) => ({
        record,
        entries: await stores.runs.read(record.runId),
        events: await stores.runs.events(record.runId, { after: 0, limit: 1000 }),
      })),
    ),
    pending: await stores.pending.list(ALL),
    journal: await readCalls(stores),
    conversations: await readConversations(stores),
    directives: (await stores.directives.list(ALL)).toReversed(),
    audit: await stores.audit.read(TENANT, { from: 1, limit: 1000 }),
    usage: stores.written.usage,
  });
}

async function readCalls({ journal, written }: KeptStores): Promise<readonly StoredCall[]> {
  const found = await Promise.all(
    written.calls.map(async ({ owner: _owner, forMs: _forMs, ...call }) => {
      const entry = await journal.find(call);
      const outcome = entry?.status === 'finished' && { outcome: entry.outcome };
      return entry ? [{ call, ...outcome }] : [];
    }),
  );
  const calls = new Map(found.flat().map((one) => [one.call.idempotencyKey, one]));
  return [...calls.values()];
}

const isOf = (key: ConversationKey) => (one: { readonly key: ConversationKey }) =>
  JSON.stringify(one.key) === JSON.stringify(key);

async function readConversations({
  conversations,
  written: { turns, left },
}: KeptStores): Promise<readonly StoredConversation[]> {
  const keys = new Map([...turns, ...left].map(({ key }) => [JSON.stringify(key), key]));
  return Promise.all(
    [...keys.values()].map(async (key) => ({
      key,
      turns: await Promise.all(
        turns.filter(isOf(key)).map(async ({ runId = '' }) => {
          const { messages = [] } = (await conversations.turn(key, runId)) ?? {};
          return { runId, messages };
        }),
      ),
      left: left.filter(isOf(key)).map(({ input }) => input),
    })),
  );
}

function toJson(stored: Stored): Stored {
  return JSON.parse(JSON.stringify(stored)) as Stored;
}

/** The lease of a process that is gone. */
const GONE = { owner: 'a-process-that-is-gone', forMs: 1 };
const DAY_MS = 86_400_000;

/** The ports that are filled. */
export type FilledStores = Required<
  Pick<
    ToolLoopStores,
    'audit' | 'conversations' | 'directives' | 'journal' | 'pending' | 'runs' | 'usage'
  >
>;

/**
 * Writes everything into stores that are empty, through their ports alone. The runs come last, so
 * that no answer wakes them.
 */
export async function fill(stores: FilledStores, stored: Stored): Promise<void> {
  await stores.runs.open();
  for (const entry of stored.audit) await stores.audit.append(TENANT, () => entry);
  for (const record of stored.pending) await fillPending(stores, record);
  for (const call of stored.journal) await fillCall(stores, call);
  for (const conversation of stored.conversations) await fillConversation(stores, conversation);
  for (const batch of stored.usage) await stores.usage.add(batch);
  for (const record of stored.directives) await fillDirective(stores, record);
  for (const run of stored.runs) await fillRun(stores, run);
}

async function fillPending(
  { pending }: FilledStores,
  { answer, usedAt, ...record }: Pending,
): Promise<void> {
  await pending.add(record);
  if (answer) await pending.answer(record.id, answer);
  if (usedAt !== undefined) await pending.use(record.id);
}

async function fillCall({ journal }: FilledStores, { call, outcome }: StoredCall): Promise<void> {
  const claim = await journal.acquire({ ...call, ...GONE });
  if (claim.status === 'acquired' && outcome)
    await journal.finish({ ...call, ...claim.lease }, outcome);
}

async function fillConversation(
  { conversations }: FilledStores,
  { key, turns, left }: StoredConversation,
): Promise<void> {
  for (const { messages, runId } of turns) await conversations.append(key, messages, runId);
  for (const input of left) await conversations.leave(key, input, DAY_MS);
}

async function fillDirective(
  { directives }: FilledStores,
  { intent, status, task, result }: DirectiveRecord,
): Promise<void> {
  await directives.add(intent);
  if (status === 'pending') return;
  const leased = await directives.acquire(intent, GONE);
  if (status === 'performing' || !leased) return;
  await directives.change(
    { ...intent, status: 'performing', epoch: leased.epoch, owner: GONE.owner },
    { event: 'succeeded', status, task, ...(result !== undefined && { result }) },
  );
}

async function fillRun({ runs }: FilledStores, run: StoredRun): Promise<void> {
  const { record, entries, events } = run;
  const { runId, tenant, actorId, loop, request, status, finishReason, waitingFor } = record;
  const whole = {
    runId,
    tenant,
    actorId,
    entries,
    events,
    ...(loop !== undefined && { loop }),
    ...(request && { request }),
    ...(waitingFor && { waitingFor }),
  };
  if (status === 'queued') return runs.add(whole, 'queued');
  if (status === 'waiting' && !request) return runs.add(whole, 'waiting');
  const hold = { runId, ...(await runs.begin(whole, GONE)) };
  if (status === 'running' || !finishReason) return;
  const ending = { status, finishReason, ...(waitingFor && { waitingFor }) };
  await runs.append(hold, { entries: [], events: [], ending });
}
