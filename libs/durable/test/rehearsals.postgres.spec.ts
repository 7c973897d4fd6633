import { createServerDatabase, describePostgres } from './databases.js';
import { rehearsesInTransactions } from './rehearsals-suite.js';

describePostgres('a rehearsal, on PostgreSQL', () => {
  rehearsesInTransactions(async () => {
    const { url, drop } = await createServerDatabase();
    return { durable: { url }, drop };
  });
});
