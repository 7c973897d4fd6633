import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type Configuration, MikroORM } from '@mikro-orm/core';
import { AbstractSqlConnection, AbstractSqlDriver, BaseMySqlPlatform } from '@mikro-orm/sql';
import { MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { type Dialect, MysqlDialect } from 'kysely';
import { createPool } from 'mysql2';
import { Customer, Order } from './shop.js';
import { createMariaDb, describeMariaDb } from './typeorm-storage.js';

/** The part of `@mikro-orm/mysql` that asks a server, which is not installed here for one spec. */
class MySqlConnection extends AbstractSqlConnection {
  override createKyselyDialect(): Dialect {
    const { host, port, user } = this.getConnectionOptions();
    const pool = createPool({
      host,
      port,
      user,

      database: this.config.get('dbName'),
      connectionLimit: 1,
    });
    return new MysqlDialect({ pool });
  }
}

class MySqlDriver extends AbstractSqlDriver<MySqlConnection> {
  constructor(configuration: Configuration) {
    super(configuration, new BaseMySqlPlatform(), MySqlConnection, ['kysely', 'mysql2']);
  }
}

describeMariaDb('a gateway to MikroORM on MariaDB', () => {
  let orm: MikroORM<MySqlDriver>;
  beforeAll(async () => {
    const { host, port, username, database } = await createMariaDb();
    orm = await MikroORM.init({
      driver: MySqlDriver,
      entities: [Customer, Order],
      dbName: String(database),
      host: String(host),
      port: Number(port),
      user: String(username),
    });
  });
  afterAll(() => orm?.close());

  it('refuses a server where a backslash escapes nothing, as that to TypeORM does', async () => {
    const gateway = new MikroOrmGateway(orm);
    expect(await gateway.findings([])).toEqual([]);
    await orm.em
      .fork()
      .execute(`set session sql_mode = concat(@@sql_mode, ',NO_BACKSLASH_ESCAPES')`);
    expect(await gateway.findings([])).toMatchObject([
      {
        at: 'ResourceToolsModule',
        problem: expect.stringContaining('NO_BACKSLASH_ESCAPES'),
        remedy: expect.stringContaining('SET GLOBAL'),
      },
    ]);
  });
});
