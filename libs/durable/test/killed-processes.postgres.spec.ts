import { createServerDatabase, describePostgres } from './databases.js';
import { losesNothing } from './killed-processes-suite.js';

describePostgres('a process that is killed, on PostgreSQL', () => {
  losesNothing(async () => {
    const { url, drop } = await createServerDatabase();
    return { durable: { url }, drop };
  });
});
