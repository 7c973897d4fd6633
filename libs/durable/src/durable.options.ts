import type { Finding } from '@toolloop/core';
import { isObject, isWhole } from './option-shapes.js';
import { runFindings, type RunOptions } from './runs/run.options.js';
import { urlProblem } from './database/unreachable.js';

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

function urlFindings(url: unknown): Finding[] {
  const problem = urlProblem(typeof url === 'string' ? url : '');
  return problem === undefined ? [] : [finding(' url', problem, 'Give postgres://user:password@host:5432/database, percent-encoded.')];
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

function finding(at: string, problem: string, remedy: string): Finding {
  return { at: `DurableModule${at}`, problem, remedy };
}
