import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { ConfigurationError } from '@toolloop/core';
import { fromError } from './storage-error.js';

/**
 * Keeps a second process out of a folder: PGlite has no lock of its own, and two processes lose
 * each other's data in silence.
 *
 * Every process lays down a claim of its own name and then looks for others, so that of two who
 * come at once at least one sees the other, and none ever removes a claim but a dead process's. A
 * process is known by its id and by when it began: ids come back, in a container after every
 * restart.
 */
export class FolderLock {
  private constructor(private readonly file: string) {}

  /**
   * Throws `ConfigurationError` where a living process has the folder, and where it cannot be made
   * or written to.
   */
  static async take(folder: string): Promise<FolderLock> {
    try {
      await makeFolder(resolve(folder));
      return await FolderLock.claim(folder);
    } catch (error) {
      throw error instanceof ConfigurationError ? error : unusableFolder(folder, error);
    }
  }

  private static async claim(folder: string): Promise<FolderLock> {
    for (let attempt = 1; ; attempt += 1) {
      const name = `process-${process.pid}-${randomUUID()}.lock`;
      const lock = new FolderLock(join(folder, name));
      await writeFile(lock.file, JSON.stringify(await ownClaim()), { flag: 'wx', mode: 0o600 });
      const holder = await holderOf(folder, name);
      if (!holder) return lock;
      await lock.release();
      if (attempt === ATTEMPTS) throw takenError(folder, holder);
      await wait(10 + Math.random() * 50); // two who came at once have both withdrawn
    }
  }

  release(): Promise<void> {
    return rm(this.file, { force: true });
  }
}

const CLAIM = /^process-.+\.lock$/;
const ATTEMPTS = 5;

interface Holder extends Claim {
  readonly file: string;
}

/** Finds another process that is alive and claims the folder. Claims of the dead are removed. */
async function holderOf(folder: string, own: string): Promise<Holder | undefined> {
  const names = (await readdir(folder)).filter((name) => CLAIM.test(name) && name !== own);
  for (const name of names) {
    const file = join(folder, name);
    const claim = fromClaim(await readFile(file, 'utf8').catch(() => '')) ?? {
      pid: Number(name.split('-')[1]),
      host: hostname(),
    };
    if (await isAlive(claim)) return { ...claim, file };
    await rm(file, { force: true });
  }
  return undefined;
}

async function ownClaim(): Promise<Claim> {
  const began = await beginningOf(process.pid);
  return { pid: process.pid, host: hostname(), ...(began !== undefined && { began }) };
}

/**
 * A process on another host, which may share the folder, cannot be looked at: it counts as alive.
 */
async function isAlive({ pid, host, began }: Claim): Promise<boolean> {
  if (host !== hostname()) return true;
  if (!isRunning(pid)) return false;
  const now = await beginningOf(pid);
  return began === undefined || now === undefined || began === now;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return fromError(error).code !== 'ESRCH';
  }
}

/**
 * The boot and the tick in it at which a process began; undefined where the system does not tell
 * (only Linux does).
 */
async function beginningOf(pid: number): Promise<string | undefined> {
  try {
    const [boot, stat] = await Promise.all([
      readFile('/proc/sys/kernel/random/boot_id', 'utf8'),
      readFile(`/proc/${pid}/stat`, 'utf8'),
    ]);
    const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
    return ticks === undefined ? undefined : `${boot.trim()} ${ticks}`;
  } catch {
    return undefined;
  }
}

function takenError(folder: string, { pid, host, file }: Holder): ConfigurationError {
  const who = host === hostname() ? `process ${pid}` : `process ${pid} on ${host}`;
  const own = pid === process.pid && host === hostname() ? ' (this one)' : '';
  return new ConfigurationError([
    {
      at: 'DurableModule dataDir',
      problem: `The database folder ${resolve(folder)} is in use by ${who}${own}; two at once would lose each other's data.`,
      remedy: `Stop it, give each process its own folder, or let several share one PostgreSQL (url). Only if it is certainly gone, delete ${file}.`,
    },
  ]);
}

/**
 * For its owner alone, with what is missing above it. Node's own `recursive` goes round for ever
 * where nothing can be made, as in `/proc`.
 */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    const { code } = fromError(error);
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || dirname(folder) === folder) throw error;
    await makeFolder(dirname(folder));
    await mkdir(folder, { mode: 0o700 }).catch(ignoreExisting);
  }
}

/** Two processes may make it at once. */
function ignoreExisting(error: unknown): void {
  if (fromError(error).code !== 'EEXIST') throw error;
}

/** Why nothing can be kept in a folder, and what to do. */
export function unusableFolder(folder: string, error: unknown): ConfigurationError {
  const { code, message } = fromError(error);
  return new ConfigurationError([
    {
      at: 'DurableModule dataDir',
      problem: `The folder ${resolve(folder)} cannot be created or written to: ${message || code}.`,
      remedy:
        'Name a folder that this process may create and write to, or use a PostgreSQL server instead (url).',
    },
  ]);
}

/** The process that has a folder. */
export interface Claim {
  readonly pid: number;
  readonly host: string;
  /** When the process began, so that another one of the same id is told apart. */
  readonly began?: string;
}

/** Reads what a process wrote; undefined for what was not written to its end. */
export function fromClaim(text: string): Claim | undefined {
  try {
    const claim = JSON.parse(text) as Claim;
    return Number.isSafeInteger(claim.pid) && typeof claim.host === 'string' ? claim : undefined;
  } catch {
    return undefined;
  }
}
