import type { Finding } from '@toolloop/core';
import {
  defineOptions,
  type OptionRule,
  optionsOf,
  type OptionTable,
  WHOLE_ABOVE_ZERO,
  wholeFrom,
} from '@toolloop/core/internal';
import { urlProblem } from './database/database-url.js';

/** The place where everything is kept: one of the three. */
export type DurableOptions = ServerOptions | FolderOptions | MemoryOptions;

/** After how many days things are deleted. Whatever is not named is kept for ever. */
export interface Retention {
  /**
   * Calls, after they ended: from then on the same idempotency key may act again. Calls whose
   * outcome is unknown stay.
   */
  readonly calls?: number;
  /** The parts of conversations, after they were added. */
  readonly conversations?: number;
  /**
   * Directives, after they were settled: from then on the same request creates another one. Those
   * that wait for a person stay.
   */
  readonly directives?: number;
  /**
   * The questions of runs to people, approvals included, after they were asked. One that may still
   * be answered stays.
   */
  readonly pending?: number;
  /** Runs, after they ended. */
  readonly runs?: number;
  /**
   * Runs that are not durable, after they began to wait: from then on no one can resume them. One
   * whose question may still be answered stays.
   */
  readonly suspendedRuns?: number;
  /** The counts of usage, after their day. @default 400 */
  readonly usage?: number;
}

/** A PostgreSQL server, which several processes may share. */
export interface ServerOptions extends CommonOptions {
  /** `postgres://user:password@host:5432/database`. */
  readonly url: string;
  /** Connections of this process, in addition to the one that listens. @default 10 */
  readonly connections?: number;
  /**
   * The milliseconds for which the start waits for a server that only lets itself be read, such as
   * a standby that is to be promoted. @default 0, the start fails and says so
   */
  readonly waitForPrimaryMs?: number;
}

/** PGlite in a folder: one process, and not safe against power loss. */
export interface FolderOptions extends CommonOptions {
  /** Created if it is missing, with access for its owner alone. */
  readonly dataDir: string;
}

/** PGlite in memory, for tests. */
export interface MemoryOptions extends CommonOptions {
  readonly memory: true;
  /**
   * The result of PGlite's `dumpDataDir()`; starting from it is several times faster. @default an
   * empty database
   */
  readonly template?: Blob;
}

interface CommonOptions {
  /** The days after which things are deleted. The audit never is. @default nothing */
  readonly retention?: Retention;
  /** The work of this process on durable runs. */
  readonly runs?: RunOptions;
}

/** The work of a process on durable runs. Times are in milliseconds. */
export interface RunOptions {
  /**
   * The number of queued runs that a process works on at once. With 0 it only runs those it opens
   * itself. @default 10
   */
  readonly concurrency?: number;
  /** The time between two reports of a process that its runs are alive. @default 3000 */
  readonly heartbeatMs?: number;
  /** After how much silence another process takes over a run; several heartbeats. @default 15000 */
  readonly takeoverMs?: number;
  /**
   * The time that steps in progress may take at shutdown before they are broken off. @default 10000
   */
  readonly drainMs?: number;
  /**
   * The pause before a run is handed out again since a store failed, doubled each time in a row, up
   * to five minutes. After ten times the run waits, with the error `storage_unavailable`, until its
   * actor or an operator resumes it. @default 1000
   */
  readonly pauseMs?: number;
}

const DEFAULT_RUN_OPTIONS: Required<RunOptions> = {
  concurrency: 10,
  heartbeatMs: 3_000,
  takeoverMs: 15_000,
  drainMs: 10_000,
  pauseMs: 1_000,
};

/** More is no delay of a timer: Node would make it a millisecond. */
const LONGEST_MS = 2_147_483_647;
/** A thousand years: more are further back than dates go. */
const MOST_DAYS = 365_000;

/**
 * A finding names the option in its place, and never the value: an address may have a password in
 * it.
 */
const wording = { unknown: 'There is no option "*".', option: 'It', place: ' *' };
const noObject = {
  problem: () => 'It is not an object.',
  remedy: () => 'Leave it out, or see its options in the README.',
};

const DAYS: OptionRule<number> = {
  wanted: 'days',
  accept: (value) => typeof value === 'number' && value > 0 && value <= MOST_DAYS,
  problem: () => `It is not a number of days above 0 and up to ${MOST_DAYS}.`,
  remedy: () => 'Leave it out to keep things for ever.',
};

const RETENTION = defineOptions<Retention>(
  {
    calls: DAYS,
    conversations: DAYS,
    directives: DAYS,
    pending: DAYS,
    runs: DAYS,
    suspendedRuns: DAYS,
    usage: DAYS,
  },
  { wording: { ...wording, place: '.*' } },
);

function number(least: number, most: number): OptionRule<number> {
  return { ...wholeFrom(least, most), problem: () => 'It is not a number that makes sense.' };
}

const RUNS: OptionTable<RunOptions> = defineOptions<RunOptions>(
  {
    concurrency: number(0, 10_000),
    heartbeatMs: number(1, LONGEST_MS),
    takeoverMs: number(1, LONGEST_MS),
    drainMs: number(0, LONGEST_MS),
    pauseMs: number(1, LONGEST_MS),
  },
  { wording, together: silenceFindings },
);

/** The options, with the defaults of those that are left out. */
export function runOptionsOf(options: RunOptions): Required<RunOptions> {
  return RUNS.merge(DEFAULT_RUN_OPTIONS, options);
}

function silenceFindings(options: RunOptions, at: string): Finding[] {
  const { heartbeatMs, takeoverMs } = runOptionsOf(options);
  if (takeoverMs >= 2 * heartbeatMs) return [];
  const remedy =
    'Give more, or a shorter heartbeatMs: otherwise a run is taken from a healthy process.';
  return [
    {
      at: `${at} takeoverMs`,
      problem: `It is ${takeoverMs}, less than two heartbeats of ${heartbeatMs}.`,
      remedy,
    },
  ];
}

const SAY_ONE = 'Give one of url (PostgreSQL), dataDir (a folder) and memory: true.';

/** The rules of the options of `DurableModule`. */
export const DURABLE = defineOptions<DurableOptions>(
  {
    url: {
      wanted: 'postgres://user:password@host:5432/database, percent-encoded',
      accept: (value) => problemWithUrl(value) === undefined,
      problem: (value) => problemWithUrl(value) ?? '',
    },
    dataDir: {
      wanted: 'a folder',
      accept: (value) => typeof value === 'string' && value !== '' && !value.includes('\0'),
      problem: () => 'It is not a path.',
      remedy: () => 'Name a folder that this process may write to.',
    },
    memory: {
      wanted: 'true',
      accept: (value) => value === true,
      problem: () => 'It is not true.',
      remedy: () => SAY_ONE,
    },
    connections: {
      ...WHOLE_ABOVE_ZERO,
      wanted: 'the number of connections this process may open',
      problem: () => 'It is not a whole number above 0.',
    },
    waitForPrimaryMs: number(0, LONGEST_MS),
    template: {
      wanted: "what PGlite's dumpDataDir() gave, or leave it out",
      accept: (value) => value instanceof Blob,
      problem: () => 'It is not a Blob.',
    },
    retention: { ...optionsOf(RETENTION), ...noObject },
    runs: { ...optionsOf(RUNS), ...noObject },
  },
  { wording, together: placeFindings },
);

function problemWithUrl(url: unknown): string | undefined {
  return urlProblem(typeof url === 'string' ? url : '');
}

/** The place that an option belongs to. */
const BELONGS_TO = { connections: 'url', waitForPrimaryMs: 'url', template: 'memory' } as const;

/** Everything is kept in one place, which an option that is wrong names as well. */
function placeFindings(_sound: object, at: string, given: object): Finding[] {
  const isGiven = (name: string): boolean => Reflect.get(given, name) !== undefined;
  const said = ['url', 'dataDir', 'memory'].filter(isGiven);
  const stray = Object.entries(BELONGS_TO).filter(
    ([name, place]) => isGiven(name) && !isGiven(place),
  );
  return [
    ...(said.length === 1
      ? []
      : [
          {
            at,
            problem: `It says ${said.join(' and ') || 'nothing'} of where to keep things.`,
            remedy: SAY_ONE,
          },
        ]),
    ...stray.map(([name, place]) => ({
      at: `${at} ${name}`,
      problem: `It says something about ${place}, which is not given.`,
      remedy: 'Leave it out.',
    })),
  ];
}
