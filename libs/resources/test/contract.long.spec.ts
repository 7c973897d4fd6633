import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { resourceGatewayContract } from '@toolloop/testing/resources';
import { describePostgres, inMemory } from '../../durable/test/databases.js';
import { byMikroOrm, byTypeOrm, byTypeOrmOn } from './library.js';
import { onServer } from './server.js';
import { createMariaDb, describeMariaDb } from './typeorm-storage.js';

const runner = { describe, it, beforeAll, afterAll };

resourceGatewayContract('to MikroORM on PGlite', async () => byMikroOrm(await inMemory()), runner);
resourceGatewayContract('to TypeORM on PGlite', async () => byTypeOrm(await inMemory()), runner);

describePostgres('on PostgreSQL', () => {
  resourceGatewayContract('to MikroORM', async () => byMikroOrm(await onServer()), runner);
  resourceGatewayContract('to TypeORM', async () => byTypeOrm(await onServer()), runner);
});

describeMariaDb('on MariaDB', () => {
  resourceGatewayContract('to TypeORM', async () => byTypeOrmOn(await createMariaDb()), runner);
});
