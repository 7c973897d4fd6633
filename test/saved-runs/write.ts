import 'reflect-metadata';
import { AsyncLocalStorage } from 'node:async_hooks';
import crypto from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { dirname } from 'node:path';
import { mock } from 'node:test';
import type { Kind } from './desk.js';
import { type File, fileOf, formOf, nameOf } from './files.js';
import { KeptStores } from './kept-stores.js';
import { Passage } from './passage.js';
import { KINDS, type Situation, SITUATIONS } from './situations.js';
import { readStored } from './stored.js';

/** The count of each situation, whose processes may still be at work when the next one begins. */
const counts = new AsyncLocalStorage<{ last: number }>();

/** Ids and references in order: the same ones in each writing of a file. */
function next(): number {
  const count = counts.getStore() ?? { last: 0 };
  count.last += 1;
  return count.last;
}

const randomUUID = (): ReturnType<typeof crypto.randomUUID> =>
  `00000000-0000-4000-8000-${String(next()).padStart(12, '0')}`;

const randomBytes = (size: number): Buffer =>
  crypto.createHash('sha512').update(String(next())).digest().subarray(0, size);

/** So late that nothing of it has expired where a database has a clock of its own. */
const NOW = Date.parse('2099-01-01T00:00:00.000Z');

mock.timers.enable({ apis: ['Date'], now: NOW });
Object.assign(crypto, { randomUUID, randomBytes });
syncBuiltinESMExports();
performance.now = () => 0;

for (const situation of SITUATIONS)
  for (const kind of situation.kinds ?? KINDS)
    await counts.run({ last: 0 }, () => write(kind, situation));
process.exit();

async function write(kind: Kind, situation: Situation): Promise<void> {
  const stores = new KeptStores();
  const passage = await Passage.begin(kind, situation, stores);
  await (situation.reach ?? ((begun) => begun.run()))(passage);
  const file: File = { effects: passage.effects, stored: await readStored(stores) };
  const path = fileOf(formOf(file), nameOf(kind, situation.name));
  if (existsSync(path)) return; // what was saved stays as it is
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(file, undefined, 1)}\n`);
}
