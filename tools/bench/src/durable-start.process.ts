import { openDatabase } from '@toolloop/durable';

/**
 * Opens the database in a folder, in a process of its own where nothing is warm, and tells how many
 * milliseconds it took. Argument: the folder.
 */
const [, , dataDir = ''] = process.argv;
const before = performance.now();
const database = await openDatabase({ dataDir });
const ms = performance.now() - before;
await database.close();
console.log(ms);
