import type { Finding } from '@toolloop/core';
import { runFindings, type RunOptions } from './runs/run.options.js';
import { urlProblem } from './database/unreachable.js';

/** Days after which something is deleted. What is not named is kept for ever. */
export interface Retention {
  /** Approvals, after they were asked for. */
  readonly approvals?: number;
  /** Calls, after they ended: from then on the same idempotency key may act again. Those of which nobody knows stay. */
  readonly calls?: number;
  /** The parts of conversations, after they were added. */
  readonly conversations?: number;
  /** Directives, after they were over: from then on the same request asks for another one. Those that wait for a person's word stay. */
  readonly directives?: number;
  /** Durable runs, after they ended. */
  readonly runs?: number;
  /** Runs that wait, after they began to: then nobody can resume them. */
  readonly suspendedRuns?: number;
}

interface CommonOptions {
  /** What is deleted, and when. The audit never is. @default nothing */
  readonly retention?: Retention;
  /** How durable runs are gone on with. */
  readonly runs?: RunOptions;
}

/** A PostgreSQL server, which several processes may share. */
export interface ServerOptions extends CommonOptions {
  /** `postgres://user:password@host:5432/database`. */
  readonly url: string;
  /** Connections of this process, beside the one that listens. @default 10 */
  readonly connections?: number;
}

/** PGlite in a folder: one process, and not safe against power loss. */
export interface FolderOptions extends CommonOptions {
  /** Made where it is missing, for its owner alone. */
  readonly dataDir: string;
}

/** PGlite in memory, for tests. */
export interface MemoryOptions extends CommonOptions {
  readonly memory: true;
  /** What PGlite's `dumpDataDir()` gave once: starting from it takes a fraction of the time. */
  readonly template?: Blob;
}

/** Where everything is kept: one of the three. */
export type DurableOptions = ServerOptions | FolderOptions | MemoryOptions;

const KNOWN = new Set(['url', 'connections', 'dataDir', 'memory', 'template', 'retention', 'runs']);
const KEPT = new Set(['approvals', 'calls', 'conversations', 'directives', 'runs', 'suspendedRuns']);

/** What is wrong with the options; an address is never quoted. */
export function optionFindings(options: DurableOptions): Finding[] {
  const said = ['url', 'dataDir', 'memory'].filter((name) => Object.hasOwn(options, name) && valueOf(options, name) !== undefined);
  return [
    ...(said.length === 1 ? [] : [finding('', `It says ${said.join(' and ') || 'nothing'} of where to keep things.`, SAY_ONE)]),
    ...unknownIn(options, KNOWN, ''),
    ...placeFindings(options),
    ...retentionFindings(options.retention ?? {}),
    ...runFindings(options.runs ?? {}),
  ];
}

const SAY_ONE = 'Give one of url (PostgreSQL), dataDir (a folder) and memory: true.';

function placeFindings(options: DurableOptions): Finding[] {
  const [url, dataDir, memory, connections] = ['url', 'dataDir', 'memory', 'connections'].map((name) => valueOf(options, name));
  return [
    ...(url === undefined ? [] : urlFindings(url)),
    ...(dataDir === undefined || (typeof dataDir === 'string' && dataDir !== '')
      ? []
      : [finding(' dataDir', 'It is no path.', 'Name a folder that this process may write to.')]),
    ...(memory === undefined || memory === true ? [] : [finding(' memory', 'It is not true.', SAY_ONE)]),
    ...(connections === undefined ? [] : connectionFindings(connections)),
  ];
}

function urlFindings(url: unknown): Finding[] {
  const problem = urlProblem(typeof url === 'string' ? url : '');
  return problem === undefined ? [] : [finding(' url', problem, 'Give postgres://user:password@host:5432/database, percent-encoded.')];
}

function connectionFindings(connections: unknown): Finding[] {
  if (Number.isSafeInteger(connections) && Number(connections) > 0) return [];
  return [finding(' connections', 'It is no whole number above 0.', 'Give the number of connections this process may open.')];
}

function retentionFindings(retention: Retention): Finding[] {
  const wrong = Object.entries(retention).filter(([, days]) => days !== undefined && !(Number(days) > 0));
  return [
    ...unknownIn(retention, KEPT, ' retention'),
    ...wrong.map(([name]) => finding(` retention.${name}`, 'It is no number of days above 0.', 'Leave it out to keep things for ever.')),
  ];
}

function unknownIn(options: object, known: ReadonlySet<string>, at: string): Finding[] {
  const unknown = Object.keys(options).filter((name) => !known.has(name));
  return unknown.map((name) => finding(at, `There is no option "${name}".`, `There are ${[...known].join(', ')}.`));
}

function valueOf(options: object, name: string): unknown {
  return Reflect.get(options, name);
}

function finding(at: string, problem: string, remedy: string): Finding {
  return { at: `DurableModule${at}`, problem, remedy };
}
