import {
  ConversationStore,
  type ConversationKey,
  type ConversationListing,
  type ConversationOwner,
  type ConversationSummary,
  type Message,
  type MessagePage,
} from '@toolloop/core';
import type { Database } from '../database/database.js';
import { fromTextJson } from './from-text-json.js';
import { isStorable, keyHash, storableKey, storedJson } from './storable.js';

/** How many of the last messages a run goes on with, and the rest of the part that the oldest of them is in. All are kept. */
const MOST_MESSAGES = 200;

/** Keeps conversations in SQL, one row for what one run added, so that no call is ever read without its result. */
export class SqlConversationStore extends ConversationStore {
  constructor(private readonly database: Database) {
    super();
  }

  override async load(key: ConversationKey): Promise<readonly Message[]> {
    const rows = await this.database.query<{ readonly messages: readonly Message[] }>(
      `select messages from (
         select messages, position, sum(message_count) over (order by position desc) - message_count as newer
         from toolloop.conversation_parts where tenant = $1 and key_hash = $2
       ) as parts where newer < ${MOST_MESSAGES} order by position`,
      keysOf(key),
    );
    return rows.flatMap(({ messages }) => messages);
  }

  override async append(key: ConversationKey, messages: readonly Message[], runId?: string): Promise<void> {
    if (messages.length === 0) return;
    await this.database.query(
      `insert into toolloop.conversation_parts (tenant, key_hash, actor_hash, conversation_id, message_count, messages, run_id)
       values ($1, $2, $3, $4, $5, $6, $7)
       on conflict (tenant, key_hash, run_id) do update set message_count = excluded.message_count, messages = excluded.messages`,
      [
        ...keysOf(key),
        keyHash(key.actorId),
        JSON.stringify(key.conversationId),
        messages.length,
        storedJson(messages, 'messages'),
        runId === undefined ? null : storableKey(runId, 'id of the run'),
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
       from toolloop.conversation_parts where tenant = $1 and actor_hash = $2 group by key_hash
       having max(position) < coalesce(
         (select max(position) from toolloop.conversation_parts where tenant = $1 and key_hash = $3), 9223372036854775807)
       order by max(position) desc limit $4`,
      [tenant, keyHash(actorId), after === undefined ? '' : keyHash(actorId, after), limit],
    );
    return rows.map((row) => ({
      conversationId: fromTextJson(row.conversation_id),
      messages: row.messages,
      updatedAt: row.updated_at.toISOString(),
    }));
  }

  override async read(key: ConversationKey, { from, limit }: MessagePage): Promise<readonly Message[]> {
    const rows = await this.database.query<{ readonly messages: readonly Message[]; readonly before: number }>(
      `select messages, before::int as before from (
         select messages, position, message_count, sum(message_count) over (order by position) - message_count as before
         from toolloop.conversation_parts where tenant = $1 and key_hash = $2
       ) as parts where before + message_count > $3 and before < $4 order by position`,
      [...keysOf(key), from, from + limit],
    );
    const first = rows[0]?.before ?? 0;
    return rows.flatMap(({ messages }) => messages).slice(from - first, from - first + limit);
  }

  override async delete(key: ConversationKey): Promise<boolean> {
    const deleted = await this.database.query(
      'delete from toolloop.conversation_parts where tenant = $1 and key_hash = $2 returning 1 as gone',
      keysOf(key),
    );
    return deleted.length > 0;
  }
}

interface SummaryRow {
  readonly conversation_id: string;
  readonly messages: number;
  readonly updated_at: Date;
}

function keysOf({ tenant, actorId, conversationId }: ConversationKey): [tenant: string, keyHash: string] {
  return [storableKey(tenant, 'tenant'), keyHash(actorId, conversationId)];
}
