import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = new URL('.', import.meta.url);
const DESK = new URL('desk/', folder);
/**
 * The files that decide what a new database is, beside those of the desk: the tables of the
 * library, and the versions of PGlite and of the job queue.
 */
const SOURCES = [
  new URL('../libs/durable/dist/database/migrations.js', import.meta.url),
  new URL('../package-lock.json', import.meta.url),
];
/** The queues of the library, whose tables the job queue makes. */
const QUEUES = ['toolloop-directives', 'toolloop-runs'];

/**
 * A new database that `npm start` has made once, from which one in memory opens in a fraction of
 * the time; undefined where there is none for these sources.
 */
export function databaseTemplate(): Blob | undefined {
  const file = templateFile();
  return file && existsSync(file) ? new Blob([readFileSync(file)]) : undefined;
}

function templateFile(): URL | undefined {
  if (![...SOURCES, DESK].every((source) => existsSync(source))) return undefined;
  const desk = readdirSync(DESK).filter((name) => name.endsWith('.js'));
  const hash = createHash('sha256');
  for (const source of [...SOURCES, ...desk.toSorted().map((name) => new URL(name, DESK))])
    hash.update(readFileSync(source));
  return new URL(`database-${hash.digest('hex').slice(0, 16)}.tar`, folder);
}

/** Makes the template where it is missing, and removes older ones. */
async function makeTemplate(): Promise<void> {
  const file = templateFile();
  if (!file || existsSync(file)) return;
  for (const name of readdirSync(folder))
    if (/^database-\w+\.tar/.test(name)) rmSync(new URL(name, folder), { force: true });
  // Half a second of CPU, which a start whose template is there does not need.
  const [{ JobQueue, openDatabase }, { migrate }] = await Promise.all([
    import('@toolloop/durable'),
    import('./desk/migrations.js'),
  ]);
  const database = await openDatabase({ memory: true });
  await migrate(database);
  const jobs = new JobQueue(database);
  await Promise.all(QUEUES.map((queue) => jobs.ensure(queue)));
  await jobs.onApplicationShutdown();
  const { native } = database;
  if (native.engine === 'pglite') {
    const unfinished = new URL(`${file.href}.${process.pid}`);
    writeFileSync(
      unfinished,
      Buffer.from(await (await native.pglite.dumpDataDir('none')).arrayBuffer()),
    );
    renameSync(unfinished, file); // two starts may make it at once
  }
  await database.close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await makeTemplate();
