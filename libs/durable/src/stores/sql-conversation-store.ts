import type { Message } from '@toolloop/core';
import {
  type ConversationKey,
  type ConversationListing,
  type ConversationOwner,
  ConversationStore,
  type ConversationSummary,
  type CutTurns,
  type KeptTurn,
  type LeaseRequest,
  type LeftInput,
  type MessagePage,
} from '@toolloop/core/stores';
import type { Database } from '../database/database.js';
import { inMs } from '../database/lease-sql.js';
import { fromTextJson, isStorable, keyHash, storableKey, storedJson } from './storable.js';

/**
 * Keeps conversations in SQL, one row for what one run added, so that no call is ever read without
 * its result.
 */
export class SqlConversationStore extends ConversationStore {
  constructor(private readonly database: Database) {
    super();
  }

  override async load(key: ConversationKey): Promise<readonly Message[]> {
    const rows = await this.database.query<{ readonly messages: readonly Message[] }>(
      `select messages from (
         select messages, position, sum(message_count) over (order by position desc) - message_count as newer
         from toolloop.conversation_parts where tenant = $1 and key_hash = $2 and cut_by is null
       ) as parts where newer < ${MOST_MESSAGES} order by position`,
      keysOf(key),
    );
    return rows.flatMap(({ messages }) => messages);
  }

  override async append(
    key: ConversationKey,
    messages: readonly Message[],
    runId?: string,
  ): Promise<void> {
    if (messages.length === 0) return;
    await this.database.query(
      `insert into toolloop.conversation_parts (tenant, key_hash, actor_hash, conversation_id, message_count, messages, run_id, message_hashes)
       values ($1, $2, $3, $4, $5, $6, $7, $8)
       on conflict (tenant, key_hash, run_id) do update set message_count = excluded.message_count, messages = excluded.messages,
         message_hashes = excluded.message_hashes`,
      [
        ...keysOf(key),
        keyHash(key.actorId),
        JSON.stringify(key.conversationId),
        messages.length,
        storedJson(messages, 'messages'),
        runId === undefined ? null : storableKey(runId, 'id of the run'),
        messages.flatMap((message) =>
          message.role === 'user' && message.messageId !== undefined
            ? keyHash(message.messageId)
            : [],
        ),
      ],
    );
  }

  override async list(
    { tenant, actorId }: ConversationOwner,
    { limit = 100, after }: ConversationListing = {},
  ): Promise<readonly ConversationSummary[]> {
    if (!isStorable(tenant)) return [];
    const rows = await this.database.query<SummaryRow>(
      `select min(conversation_id) as conversation_id, sum(message_count)::int as messages, max(created_at) as updated_at
       from toolloop.conversation_parts where tenant = $1 and actor_hash = $2 and cut_by is null group by key_hash
       having max(position) < coalesce(
         (select max(position) from toolloop.conversation_parts where tenant = $1 and key_hash = $3 and cut_by is null), 9223372036854775807)
       order by max(position) desc limit $4`,
      [tenant, keyHash(actorId), after === undefined ? '' : keyHash(actorId, after), limit],
    );
    return rows.map((row) => ({
      conversationId: fromTextJson(row.conversation_id),
      messages: row.messages,
      updatedAt: row.updated_at.toISOString(),
    }));
  }

  override async read(
    key: ConversationKey,
    { from, limit }: MessagePage,
  ): Promise<readonly Message[]> {
    const rows = await this.database.query<{
      readonly messages: readonly Message[];
      readonly before: number;
    }>(
      `select messages, before::int as before from (
         select messages, position, message_count, sum(message_count) over (order by position) - message_count as before
         from toolloop.conversation_parts where tenant = $1 and key_hash = $2 and cut_by is null
       ) as parts where before + message_count > $3 and before < $4 order by position`,
      [...keysOf(key), from, from + limit],
    );
    const first = rows[0]?.before ?? 0;
    return rows.flatMap(({ messages }) => messages).slice(from - first, from - first + limit);
  }

  override async claim(key: ConversationKey, { owner, forMs }: LeaseRequest): Promise<boolean> {
    const claimed = await this.database.query(
      `insert into toolloop.conversation_turns as turns (tenant, key_hash, owner, expires_at) values ($1, $2, $3, ${inMs('$4')})
       on conflict (tenant, key_hash) do update set owner = excluded.owner, expires_at = excluded.expires_at
       where turns.owner = excluded.owner or turns.expires_at <= clock_timestamp() returning 1 as ours`,
      [...keysOf(key), owner, forMs],
    );
    return claimed.length > 0;
  }

  override async leave(
    key: ConversationKey,
    { id, texts }: LeftInput,
    forMs: number,
  ): Promise<string | undefined> {
    const [input] = await this.database.query<InputRow>(
      `insert into toolloop.conversation_inputs (tenant, key_hash, input_id, texts, expires_at) values ($1, $2, $3, $4, ${inMs('$5')})
       on conflict (tenant, key_hash, input_id) do update set expires_at = excluded.expires_at returning input_id, texts, taken_by`,
      [...keysOf(key), storableKey(id, 'id of the input'), storedJson(texts, 'input'), forMs],
    );
    return input?.taken_by ?? undefined;
  }

  override async left(key: ConversationKey, owner: string): Promise<readonly LeftInput[]> {
    const inputs = await this.database.query<InputRow>(
      `select input_id, texts, taken_by from toolloop.conversation_inputs
       where tenant = $1 and key_hash = $2 and taken_by is null and expires_at > clock_timestamp() and exists (
         select from toolloop.conversation_turns where tenant = $1 and key_hash = $2 and owner = $3 and expires_at > clock_timestamp())
       order by position`,
      [...keysOf(key), owner],
    );
    return inputs.map(({ input_id: id, texts }) => ({ id, texts }));
  }

  override async take(
    key: ConversationKey,
    id: string,
    owner: string,
  ): Promise<string | undefined> {
    const [input] = await this.database.query<InputRow>(
      `update toolloop.conversation_inputs set taken_by = coalesce(taken_by, $4)
       where tenant = $1 and key_hash = $2 and input_id = $3 and (taken_by is not null or expires_at > clock_timestamp()) returning input_id, texts, taken_by`,
      [...keysOf(key), storableKey(id, 'id of the input'), storableKey(owner, 'id of the run')],
    );
    return input?.taken_by ?? undefined;
  }

  override async turn(key: ConversationKey, id: string): Promise<KeptTurn | undefined> {
    const [row] = await this.database.query<TurnRow>(
      `select position::text as position, run_id, messages, cut_by from toolloop.conversation_parts
       where tenant = $1 and key_hash = $2 and (run_id = $3 or $4 = any(message_hashes))
       order by cut_by is not null, conversation_parts.position desc limit 1`,
      [...keysOf(key), isStorable(id) ? id : null, keyHash(id)],
    );
    return row && turnOf(row);
  }

  override async cut(key: ConversationKey, turns: CutTurns, runId: string): Promise<void> {
    const by = [...keysOf(key), storableKey(runId, 'id of the run')];
    const which = 'from' in turns ? 'cut_by is null and position >= $4' : 'cut_by = $4';
    await this.database.query(
      `update toolloop.conversation_parts set cut_by = $3 where tenant = $1 and key_hash = $2 and ${which}`,
      [...by, 'from' in turns ? turns.from : turns.cutBy],
    );
  }

  override async cutBy(key: ConversationKey, runId: string): Promise<readonly KeptTurn[]> {
    const rows = await this.database.query<TurnRow>(
      `select position::text as position, run_id, messages, cut_by from toolloop.conversation_parts
       where tenant = $1 and key_hash = $2 and cut_by = $3 order by conversation_parts.position`,
      [...keysOf(key), storableKey(runId, 'id of the run')],
    );
    return rows.map(turnOf);
  }

  override async delete(key: ConversationKey): Promise<boolean> {
    const deleted = await this.database.query(
      'delete from toolloop.conversation_parts where tenant = $1 and key_hash = $2 returning 1 as gone',
      keysOf(key),
    );
    return deleted.length > 0;
  }
}

/**
 * The number of the last messages with which a run continues, together with the rest of the part
 * that the oldest of them is in. All are kept.
 */
const MOST_MESSAGES = 200;

interface TurnRow {
  readonly position: string;
  readonly run_id: string | null;
  readonly messages: readonly Message[];
  readonly cut_by: string | null;
}

function turnOf({ position, run_id: runId, messages, cut_by: cutBy }: TurnRow): KeptTurn {
  return {
    position: Number(position),
    messages,
    ...(runId !== null && { runId }),
    ...(cutBy !== null && { cutBy }),
  };
}

interface InputRow {
  readonly input_id: string;
  readonly texts: readonly string[];
  readonly taken_by: string | null;
}

interface SummaryRow {
  readonly conversation_id: string;
  readonly messages: number;
  readonly updated_at: Date;
}

function keysOf({
  tenant,
  actorId,
  conversationId,
}: ConversationKey): [tenant: string, keyHash: string] {
  return [storableKey(tenant, 'tenant'), keyHash(actorId, conversationId)];
}
