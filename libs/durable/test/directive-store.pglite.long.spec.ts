import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { SqlDirectiveStore } from '@toolloop/durable';
import { directiveStoreContract } from '@toolloop/testing';
import { inFolder } from './fixtures/queued-stores.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
const open = () => inFolder((database, jobs) => new SqlDirectiveStore(database, jobs));

directiveStoreContract('on PGlite', open, { describe, it, beforeAll, afterAll });
