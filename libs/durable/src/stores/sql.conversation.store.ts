import { ConversationStore, type ConversationKey, type Message } from '@toolloop/core';
import type { Database } from '../database/database.js';
import { keyHash, shownText, storableKey, storedJson } from './storable.js';

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
      `insert into toolloop.conversation_parts (tenant, key_hash, actor_id, conversation_id, message_count, messages, run_id)
       values ($1, $2, $3, $4, $5, $6, $7)
       on conflict (tenant, key_hash, run_id) do update set message_count = excluded.message_count, messages = excluded.messages`,
      [
        ...keysOf(key),
        shownText(key.actorId),
        shownText(key.conversationId),
        messages.length,
        storedJson(messages, 'messages'),
        runId === undefined ? null : storableKey(runId, 'id of the run'),
      ],
    );
  }
}

function keysOf({ tenant, actorId, conversationId }: ConversationKey): [tenant: string, keyHash: string] {
  return [storableKey(tenant, 'tenant'), keyHash(actorId, conversationId)];
}
