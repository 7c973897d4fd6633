import type { Finding } from '@toolloop/core';

/** The table of an entity, and the column that names the tenant. */
export interface TenantTable {
  readonly entity: string;
  readonly table: string;
  readonly schema?: string;
  /**
   * Absent where another table knows the tenant: then its ends do, or the application writes the
   * policy of the table.
   */
  readonly column?: string;
  /**
   * The rows that a row of a join table, or of the closure of a tree, stands between: it is of the
   * tenant that sees all of them.
   */
  readonly ends?: readonly TableEnd[];
  /**
   * `true` if the rows are those of all tenants: the role may read them, and nothing else is
   * changed.
   */
  readonly isShared?: boolean;
}

/**
 * One end of a join table: the table that it refers to, and its columns with those that they refer
 * to.
 */
export interface TableEnd {
  readonly table: string;
  readonly schema?: string;
  readonly columns: readonly (readonly [own: string, theirs: string])[];
}

/** The role in which tools work, and the setting that has their tenant. */
interface TenantRole {
  readonly role: string;
  readonly setting: string;
}

const POLICY = 'toolloop_tenant';

/**
 * Returns the statements that protect tables and let the role work in them; each can be run again.
 */
export function rowSecurityStatements(
  tables: readonly TenantTable[],
  { role, setting }: TenantRole,
): readonly string[] {
  const named = quoted(role);
  const schemas = [...new Set(tables.map(({ schema = 'public' }) => schema))];
  return [
    `do $$ begin if not exists (select from pg_roles where rolname = ${literal(role)}) then create role ${named} nologin; end if; end $$`,
    `grant ${named} to current_user`,
    ...schemas.flatMap((schema) => [
      `grant usage on schema ${quoted(schema)} to ${named}`,
      `grant usage on all sequences in schema ${quoted(schema)} to ${named}`,
    ]),
    ...tables.flatMap((table) => tableStatements(table, named, setting)),
  ];
}

function tableStatements(table: TenantTable, role: string, setting: string): string[] {
  const name = nameOf(table);
  if (table.isShared) return [`grant select on ${name} to ${role}`];
  const own = ownRows(table, setting);
  return [
    `grant select, insert, update, delete on ${name} to ${role}`,
    `alter table ${name} enable row level security`,
    `alter table ${name} force row level security`,
    ...(own === undefined
      ? []
      : [
          `drop policy if exists ${POLICY} on ${name}`,
          `create policy ${POLICY} on ${name} using (${own}) with check (${own})`,
        ]),
  ];
}

/**
 * The condition on the rows of a tenant; undefined if only the application knows it. The policies
 * of the ends hold within it.
 */
function ownRows({ table, column, ends = [] }: TenantTable, setting: string): string | undefined {
  if (column !== undefined)
    return `${quoted(column)}::text = current_setting(${literal(setting)}, true)`;
  const seen = ends.map((end) => {
    const columns = end.columns.map(
      ([own, theirs]) => `seen.${quoted(theirs)} = ${quoted(table)}.${quoted(own)}`,
    );
    return `exists (select from ${nameOf(end)} seen where ${columns.join(' and ')})`;
  });
  return seen.length === 0 ? undefined : seen.join(' and ');
}

function nameOf({ table, schema }: Pick<TenantTable, 'table' | 'schema'>): string {
  return schema === undefined ? quoted(table) : `${quoted(schema)}.${quoted(table)}`;
}

function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

interface RoleRow {
  readonly rolsuper: boolean;
  readonly rolbypassrls: boolean;
  readonly may_be_set: boolean;
}

interface TableRow {
  readonly relrowsecurity: boolean;
  readonly relforcerowsecurity: boolean;
  readonly is_owner: boolean;
  readonly policies: number;
  readonly may_read: boolean;
}

const REMEDY =
  'Put what rowSecurityMigration(app) of @toolloop/resources returns into a migration of the application, and run it.';

/** Runs a statement by itself, with its values at `?`. */
type Ask = <Row>(sql: string, values: readonly string[]) => Promise<readonly Row[]>;

/**
 * Finds what keeps the tables from being safe. It looks as the user of the connection, before
 * anything is served.
 */
export async function rowSecurityFindings(
  ask: Ask,
  tables: readonly TenantTable[],
  role: string,
): Promise<readonly Finding[]> {
  const [found] = await ask<RoleRow>(
    `select rolsuper, rolbypassrls, pg_has_role(session_user, oid, 'member') as may_be_set from pg_roles where rolname = ?`,
    [role],
  );
  const findings = found
    ? roleFindings(role, found)
    : [{ at: `role "${role}"`, problem: 'There is no such role in the database.', remedy: REMEDY }];
  for (const table of tables) findings.push(...(await tableFindings(ask, table, role)));
  return findings;
}

function roleFindings(role: string, row: RoleRow): Finding[] {
  const at = `role "${role}"`;
  const problems = [
    [row.rolsuper, 'It is a superuser, for whom row level security does not hold.'],
    [row.rolbypassrls, 'It is exempt from row level security (BYPASSRLS).'],
    [!row.may_be_set, 'The user of the connection may not take it.'],
  ] as const;
  return problems
    .filter(([isProblem]) => isProblem)
    .map(([, problem]) => ({ at, problem, remedy: REMEDY }));
}

async function tableFindings(ask: Ask, table: TenantTable, role: string): Promise<Finding[]> {
  const [row] = await ask<TableRow>(
    `select relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner) = ? as is_owner,
      (select count(*)::int from pg_policy where polrelid = c.oid) as policies,
      coalesce((select has_any_column_privilege(oid, c.oid, 'select') from pg_roles where rolname = ?), true) as may_read
    from pg_class c where c.oid = to_regclass(?)`,
    [role, role, nameOf(table)],
  );
  const at = `${table.entity} (table "${table.table}")`;
  if (!row)
    return [
      {
        at,
        problem: 'There is no such table in the database.',
        remedy: 'Run the migrations of the application before it starts.',
      },
    ];
  const { isShared = false } = table;
  const problems = [
    [
      row.is_owner && !isShared,
      `The role "${role}" owns it, and could switch its row level security off.`,
    ],
    [!row.may_read, `The role "${role}" may not read it: the grant is missing.`],
    [
      !isShared && !(row.relrowsecurity && row.relforcerowsecurity),
      'Its row level security is not enabled and forced.',
    ],
    [!isShared && row.policies === 0, 'It has no policy, so no tenant would see a row.'],
  ] as const;
  return problems
    .filter(([isProblem]) => isProblem)
    .map(([, problem]) => ({ at, problem, remedy: REMEDY }));
}
