import { openDatabase } from '@toolloop/durable';
import { Client } from 'pg';
import { createServerDatabase, describePostgres } from './databases.js';
import { StatementFaults } from './fixtures/statement-faults.js';
import { StruckApplication } from './fixtures/struck-runs.js';
import { WireProxy } from './fixtures/wire-proxy.js';
import { struckStatementsSuite } from './struck-statements-suite.js';

describePostgres('invariant 17, for every port by a proxy between driver and server:', () => {
  struckStatementsSuite(async () => {
    const server = await createServerDatabase();
    const observer = await openDatabase({ url: server.url, connections: 2 });
    const operator = new Client({ connectionString: server.url });
    await operator.connect();
    const faults = new StatementFaults();
    const proxy = await WireProxy.to(server.url, faults, (pid) => cancelled(operator, pid));
    const application = await StruckApplication.start(
      await openDatabase({ url: proxy.url, connections: 6 }),
      observer,
      faults,
    );
    const close = async (): Promise<void> => {
      await application.close();
      proxy.close();
      await Promise.all([observer.close(), operator.end()]);
      await server.drop();
    };
    return { application, close };
  });
});

/** Cancels the statement of a session once it runs. */
async function cancelled(operator: Client, pid: number): Promise<void> {
  for (;;) {
    const { rows } = await operator.query(
      `select pg_cancel_backend(pid) from pg_stat_activity where pid = $1 and state = 'active' and query like 'select pg_sleep%'`,
      [pid],
    );
    if (rows.length > 0) return;
  }
}
