import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { type INestApplication, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ToolLoopModule } from '@toolloop/core';
import { type Database } from '@toolloop/durable';
import { ResourceToolsModule, rowSecurityMigration } from '@toolloop/resources';
import { mikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { ScriptedModel } from '@toolloop/testing';
import { openInMemory } from '../../durable/test/databases.js';
import { Customer, Order, OrderTools } from './shop.js';

@Module({})
class ShopModule {}

describe('the migration that protects the tables', () => {
  let database: Database;
  const apps: INestApplication[] = [];
  beforeAll(async () => {
    database = await openInMemory();
  });
  afterAll(async () => {
    await Promise.all(apps.map((app) => app.close()));
    await database.close();
  });

  async function created(role?: string): Promise<INestApplication> {
    const { connection } = database;
    const imports = [
      MikroOrmModule.forRoot({
        driver: PostgreSqlDriver,
        driverOptions: connection,
        dbName: 'shop',
        ensureDatabase: false,
        entities: [Customer, Order],
        schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
      }),
      ResourceToolsModule.forRoot({
        gateway: mikroOrmGateway({ tenancy: role === undefined ? {} : { role } }),
      }),
      ResourceToolsModule.forFeature([OrderTools]),
      ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: { allow: ['orders__*'] } }),
    ];
    const app = await NestFactory.create(
      { module: ShopModule, imports },
      { logger: false, abortOnError: false },
    );
    apps.push(app);
    return app;
  }

  /** All that the migration would change of the database. */
  async function protection(): Promise<readonly unknown[]> {
    const asked = [
      `select relname as name, relforcerowsecurity as "isForced" from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
      'select tablename, policyname from pg_policies order by 1, 2',
      'select rolname from pg_roles order by 1',
      `select grantee, table_name, privilege_type from information_schema.role_table_grants where table_schema = 'public' order by 1, 2, 3`,
    ];
    const found: unknown[] = [];
    for (const one of asked) found.push(...(await database.query(one)));
    return found;
  }

  it('is returned by an application, and applied by no one: it does not start before that has run, and starts then', async () => {
    const first = await created('toolloop_test_migration');
    await first.get(MikroORM).schema.update();
    const before = await protection();
    const migration = rowSecurityMigration(first);
    expect([await protection(), before]).toEqual([
      before,
      expect.arrayContaining([{ name: 'orders', isForced: false }]),
    ]);
    await expect(first.init()).rejects.toThrow('rowSecurityMigration(app)');
    expect(await protection()).toEqual(before);
    for (const statement of migration.split(';\n').filter((one) => one !== ''))
      await database.query(statement);
    expect(await protection()).not.toEqual(before);
    const second = await created('toolloop_test_migration');
    await expect(second.init()).resolves.toBeDefined();
    expect(rowSecurityMigration(second)).toBe(migration);
  });

  it('names the tables that relations lead to, though they are no resource', async () => {
    expect(rowSecurityMigration(await created('toolloop_test_migration'))).toContain(
      'alter table "customers" force row level security;',
    );
  });

  it('is refused where no role is given, with what to do', async () => {
    const app = await created();
    expect(() => rowSecurityMigration(app)).toThrow('{ tenancy: { role } }');
  });
});

describe('the rule for the linter', () => {
  it.each(['em.getConnection()', 'em.getDriver()', 'source.createQueryRunner()'])(
    'refuses %s, which is outside of the tenant',
    async (raw) => {
      const folder = await mkdtemp(join(tmpdir(), 'toolloop-lint-'));
      const file = join(folder, 'tool.ts');
      await writeFile(
        file,
        `export const rows = (em: never, source: never) => (${raw} as never).execute('select 1');\n`,
      );
      const linting = promisify(execFile)('node_modules/.bin/oxlint', [
        '-c',
        'libs/resources/oxlint.json',
        file,
      ]);
      await expect(linting).rejects.toMatchObject({
        stdout: expect.stringContaining('gateway.within(context'),
      });
      await rm(folder, { recursive: true });
    },
  );
});
