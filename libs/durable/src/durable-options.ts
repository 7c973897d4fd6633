import type { Finding } from '@toolloop/core';
import { urlProblem } from './database/database-driver.js';

/** After how many days things are deleted. Whatever is not named is kept for ever. */
export interface Retention {
  /** Approvals, after they were asked for. */
  readonly approvals?: number;
  /** Calls, after they ended: from then on the same idempotency key may act again. Calls whose outcome is unknown stay. */
  readonly calls?: number;
  /** The parts of conversations, after they were added. */
  readonly conversations?: number;
  /** Directives, after they were settled: from then on the same request creates another one. Those that wait for a person stay. */
  readonly directives?: number;
  /** Durable runs, after they ended. */
  readonly runs?: number;
  /** Waiting runs, after they began to wait: then nobody can resume them. */
  readonly suspendedRuns?: number;
}

interface CommonOptions {
  /** What is deleted, and when. The audit never is. @default nothing */
  readonly retention?: Retention;
  /** How this process works on durable runs. */
  readonly runs?: RunOptions;
}

/** A PostgreSQL server, which several processes may share. */
export interface ServerOptions extends CommonOptions {
  /** `postgres://user:password@host:5432/database`. */
  readonly url: string;
  /** Connections of this process, in addition to the one that listens. @default 10 */
  readonly connections?: number;
}

/** PGlite in a folder: one process, and not safe against power loss. */
export interface FolderOptions extends CommonOptions {
  /** Created if it is missing, with access for its owner alone. */
  readonly dataDir: string;
}

/** PGlite in memory, for tests. */
export interface MemoryOptions extends CommonOptions {
  readonly memory: true;
  /** The result of PGlite's `dumpDataDir()`; starting from it is several times faster. @default an empty database */
  readonly template?: Blob;
}

/** Where everything is kept: one of the three. */
export type DurableOptions = ServerOptions | FolderOptions | MemoryOptions;

const KNOWN: Readonly<Record<keyof ServerOptions | keyof FolderOptions | keyof MemoryOptions, true>> = {
  url: true,
  connections: true,
  dataDir: true,
  memory: true,
  template: true,
  retention: true,
  runs: true,
};
const KEPT: Readonly<Record<keyof Retention, true>> = {
  approvals: true,
  calls: true,
  conversations: true,
  directives: true,
  runs: true,
  suspendedRuns: true,
};
/** A thousand years: more are further back than dates go. */
const MOST_DAYS = 365_000;

/** What is wrong with the options, whatever they are; an address is never quoted. */
export function optionFindings(options: unknown): Finding[] {
  if (!isObject(options)) return [finding('', 'Its options are not an object.', SAY_ONE)];
  const said = ['url', 'dataDir', 'memory'].filter((name) => valueOf(options, name) !== undefined);
  return [
    ...(said.length === 1 ? [] : [finding('', `It says ${said.join(' and ') || 'nothing'} of where to keep things.`, SAY_ONE)]),
    ...unknownIn(options, KNOWN, ''),
    ...placeFindings(options),
    ...withinFindings(options, 'retention', retentionFindings),
    ...withinFindings(options, 'runs', runFindings),
  ];
}

const SAY_ONE = 'Give one of url (PostgreSQL), dataDir (a folder) and memory: true.';

function urlFindings(url: unknown): Finding[] {
  const problem = urlProblem(typeof url === 'string' ? url : '');
  return problem === undefined ? [] : [finding(' url', problem, 'Give postgres://user:password@host:5432/database, percent-encoded.')];
}

function finding(at: string, problem: string, remedy: string): Finding {
  return { at: `DurableModule${at}`, problem, remedy };
}

export function isWhole(value: unknown, least: number, most = Number.MAX_SAFE_INTEGER): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most;
}

/** By the name of the option: what it takes, and what to do where it is something else. */
const PLACES: Readonly<Record<string, (value: unknown) => Finding[]>> = {
  url: urlFindings,
  dataDir: (value) =>
    typeof value === 'string' && value !== '' && !value.includes('\0')
      ? []
      : [finding(' dataDir', 'It is not a path.', 'Name a folder that this process may write to.')],
  memory: (value) => (value === true ? [] : [finding(' memory', 'It is not true.', SAY_ONE)]),
  connections: (value) =>
    isWhole(value, 1)
      ? []
      : [finding(' connections', 'It is not a whole number above 0.', 'Give the number of connections this process may open.')],
  template: (value) =>
    value instanceof Blob ? [] : [finding(' template', 'It is not a Blob.', "Give what PGlite's dumpDataDir() gave, or leave it out.")],
};

/** Which place an option says something about. */
const BELONGS_TO: Readonly<Record<string, string>> = { connections: 'url', template: 'memory' };

function placeFindings(options: object): Finding[] {
  const given = Object.entries(PLACES).filter(([name]) => valueOf(options, name) !== undefined);
  const stray = given.flatMap(([name]) => {
    const place = BELONGS_TO[name];
    if (place === undefined || valueOf(options, place) !== undefined) return [];
    return [finding(` ${name}`, `It says something about ${place}, which is not given.`, 'Leave it out.')];
  });
  return [...given.flatMap(([name, findingsOf]) => findingsOf(valueOf(options, name))), ...stray];
}

function withinFindings(options: object, name: string, findingsOf: (value: object) => Finding[]): Finding[] {
  const value = valueOf(options, name);
  if (value === undefined) return [];
  return isObject(value)
    ? findingsOf(value)
    : [finding(` ${name}`, 'It is not an object.', 'Leave it out, or see its options in the README.')];
}

function retentionFindings(retention: object): Finding[] {
  const wrong = Object.entries(retention).filter(([name, days]) => name in KEPT && days !== undefined && !isDays(days));
  return [
    ...unknownIn(retention, KEPT, ' retention'),
    ...wrong.map(([name]) =>
      finding(` retention.${name}`, `It is not a number of days above 0 and up to ${MOST_DAYS}.`, 'Leave it out to keep things for ever.'),
    ),
  ];
}

function isDays(value: unknown): boolean {
  return typeof value === 'number' && value > 0 && value <= MOST_DAYS;
}

function unknownIn(options: object, known: Readonly<Record<string, true>>, at: string): Finding[] {
  const unknown = Object.keys(options).filter((name) => !Object.hasOwn(known, name));
  return unknown.map((name) => finding(at, `There is no option "${name}".`, `There are ${Object.keys(known).join(', ')}.`));
}

function valueOf(options: object, name: string): unknown {
  return Reflect.get(options, name);
}

/** How a process works on durable runs. Times are in milliseconds. */
export interface RunOptions {
  /** How many queued runs a process works on at once. With 0 it only runs those it opens itself. @default 10 */
  readonly concurrency?: number;
  /** How often a process reports that its runs are alive. @default 3000 */
  readonly heartbeatMs?: number;
  /** After how much silence another process takes over a run; several heartbeats. @default 15000 */
  readonly takeoverMs?: number;
  /** How long steps in progress may take at shutdown before they are broken off. @default 10000 */
  readonly drainMs?: number;
}

export const DEFAULT_RUN_OPTIONS: Required<RunOptions> = { concurrency: 10, heartbeatMs: 3_000, takeoverMs: 15_000, drainMs: 10_000 };

/** More is no delay of a timer: Node would make it a millisecond. */
const LONGEST_MS = 2_147_483_647;

/** The least and the most of each. */
const RANGES: Readonly<Record<keyof RunOptions, readonly [number, number]>> = {
  concurrency: [0, 10_000],
  heartbeatMs: [1, LONGEST_MS],
  takeoverMs: [1, LONGEST_MS],
  drainMs: [0, LONGEST_MS],
};

/** With the default of what is not given. */
export function runOptionsOf({ concurrency, heartbeatMs, takeoverMs, drainMs }: RunOptions): Required<RunOptions> {
  return {
    concurrency: concurrency ?? DEFAULT_RUN_OPTIONS.concurrency,
    heartbeatMs: heartbeatMs ?? DEFAULT_RUN_OPTIONS.heartbeatMs,
    takeoverMs: takeoverMs ?? DEFAULT_RUN_OPTIONS.takeoverMs,
    drainMs: drainMs ?? DEFAULT_RUN_OPTIONS.drainMs,
  };
}

/** What is wrong with them. */
export function runFindings(options: RunOptions): Finding[] {
  const unknown = Object.keys(options).filter((name) => !Object.hasOwn(RANGES, name));
  const wrong = Object.entries(RANGES).flatMap(([name, [least, most]]) => {
    const value: unknown = Reflect.get(options, name);
    if (value === undefined || isWhole(value, least, most)) return [];
    return [
      runFinding(` ${name}`, 'It is not a number that makes sense.', `Give a whole number from ${least} to ${most}, or leave it out.`),
    ];
  });
  const known = Object.keys(RANGES).join(', ');
  return [
    ...unknown.map((name) => runFinding('', `There is no option "${name}".`, `There are ${known}.`)),
    ...wrong,
    ...(wrong.length > 0 ? [] : silenceFindings(runOptionsOf(options))),
  ];
}

function silenceFindings({ heartbeatMs, takeoverMs }: Required<RunOptions>): Finding[] {
  if (takeoverMs >= 2 * heartbeatMs) return [];
  const remedy = 'Give more, or a shorter heartbeatMs: otherwise a run is taken from a healthy process.';
  return [runFinding(' takeoverMs', `It is ${takeoverMs}, less than two heartbeats of ${heartbeatMs}.`, remedy)];
}

function runFinding(at: string, problem: string, remedy: string): Finding {
  return { at: `DurableModule runs${at}`, problem, remedy };
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
