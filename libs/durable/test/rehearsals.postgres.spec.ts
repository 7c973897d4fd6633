import { createServerDatabase, describePostgres } from './databases.js';
import {
  outlivesItsProcess,
  performsWhatWasApproved,
  rehearsesInTransactions,
} from './rehearsals-suite.js';

describePostgres('a rehearsal, on PostgreSQL', () => {
  rehearsesInTransactions(async () => {
    const { url, drop } = await createServerDatabase();
    return { durable: { url }, drop };
  });
});

describePostgres('an approved rehearsal, on PostgreSQL', () => {
  performsWhatWasApproved(async () => {
    const { url, drop } = await createServerDatabase();
    return { durable: { url }, drop };
  });
});

describePostgres('a durable rehearsal, on PostgreSQL', () => {
  outlivesItsProcess(async () => {
    const { url, drop } = await createServerDatabase();
    return { durable: { url }, drop };
  });
});
