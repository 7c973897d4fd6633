import { ConfigurationError } from '@toolloop/core';
import type { Database } from './database/database.js';

/** Ours, and the one of the job queue. */
const SCHEMAS = ['toolloop', 'pgboss'];

/** Whose rights do not suffice, and where. */
interface Rights {
  readonly name: string;
  readonly database: string;
  /** As SQL writes them. */
  readonly who: string;
  readonly is_there: boolean;
  readonly may_use: boolean;
  readonly may_create: boolean;
}

const RIGHTS = `
  select s.name, quote_ident(current_database()) as database, quote_ident(current_user) as who, n.oid is not null as is_there,
    has_database_privilege(current_database(), 'create') as may_create,
    coalesce(has_schema_privilege(n.oid, 'usage'), false) and not exists (
      select 1 from pg_class c where c.relnamespace = n.oid and (
        c.relkind in ('r', 'p') and not (
          has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert') and
          has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete')
        ) or c.relkind = 'S' and not has_sequence_privilege(c.oid, 'usage')
      )
    ) as may_use
  from unnest($1::text[]) as s (name) left join pg_namespace n on n.nspname = s.name order by s.name desc`;

/** Throws `ConfigurationError` with what to grant where the user may not make the schemas, or may not use those that another user has made. */
export async function assertRights(database: Database): Promise<void> {
  const rights = await database.query<Rights>(RIGHTS, [SCHEMAS]);
  const lacking = rights.filter(({ is_there, may_use, may_create }) => !(is_there ? may_use : may_create));
  if (lacking.length === 0) return;
  throw new ConfigurationError(
    lacking.map((one) => ({
      at: 'DurableModule url',
      problem: `The user ${one.who} may not ${one.is_there ? 'use' : 'create'} the schema ${one.name} in the database ${one.database}.`,
      remedy: one.is_there ? granting(one) : `As its owner: grant create on database ${one.database} to ${one.who};`,
    })),
  );
}

function granting({ name, who }: Rights): string {
  return [
    `As its owner: grant usage on schema ${name} to ${who};`,
    `grant select, insert, update, delete on all tables in schema ${name} to ${who};`,
    `grant usage on all sequences in schema ${name} to ${who};`,
    'A release that changes the schema is started once by the owner, and these are granted again.',
  ].join(' ');
}
