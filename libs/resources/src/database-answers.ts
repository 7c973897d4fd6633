import type { JsonValue } from '@toolloop/core';
import { endless } from './filter.js';
import type { FieldKind } from './entity-model.js';

/**
 * Tells whether an error of a database or its driver is about a connection, or about two
 * transactions in each other's way: the same may succeed later.
 */
export function mayPass(error: unknown): boolean {
  const { code, message } = (error ?? {}) as {
    readonly code?: unknown;
    readonly message?: unknown;
  };
  return (
    (typeof code === 'string' && PASSING.test(code)) ||
    (typeof message === 'string' && LOST.test(message))
  );
}

/**
 * The states of PostgreSQL, the codes of MariaDB and of Node, and that of `@toolloop/durable`, of
 * failures that may pass.
 */
const PASSING =
  /^(?:08|57P0[1235]|53|40001|40P01|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|PROTOCOL_|ER_SERVER_SHUTDOWN|ER_LOCK_DEADLOCK|ER_CON_COUNT|ER_CONNECTION_KILLED|ER_TOO_MANY_USER_CONNECTIONS|storage_unavailable)/;

/** The messages of pg and mysql2 about a connection itself, which have no code. */
const LOST =
  /^(?:Connection terminated|Connection lost|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|terminating connection|Can't add new command when connection is in closed state)/;

/** The numbers of MariaDB and MySQL for values that a column cannot take. */
const REFUSED_VALUES: ReadonlyMap<unknown, 'check' | 'range'> = new Map([
  [1264, 'range'],
  [1292, 'check'],
  [1366, 'check'],
  [1406, 'check'],
]);

/** PostgreSQL's code for a number that is beyond its column. */
const OUT_OF_RANGE = '22003';

/**
 * Finds the reason why a database cannot take a value, such as a day before there were any, or a
 * number that is too large for its column; undefined for an error about anything else.
 */
export function reasonOfValue({
  code,
  errno,
}: {
  readonly code?: unknown;
  readonly errno?: unknown;
}): 'check' | 'range' | undefined {
  if (code === OUT_OF_RANGE) return 'range';
  const isOfValues = typeof code === 'string' && code.length === 5 && code.startsWith('22');
  return isOfValues ? 'check' : REFUSED_VALUES.get(errno);
}

/** Reads the key or the column that MariaDB and MySQL name in their message alone. */
export function subjectIn(message = ''): string {
  const [, named = ''] = /(?:for key|column) '(?:[^'.]+\.)?([^']+)'/i.exec(message) ?? [];
  return named;
}

/** Reads a value that came by SQL, not by an entity. */
export function toJson(kind: FieldKind, value: unknown): JsonValue {
  if (value === null || value === undefined) return null;
  if (typeof value === 'boolean') return value;
  const text = toText(value);
  if (kind === 'datetime' || kind === 'date') return endless(text) ?? toMoment(kind, text);
  return kind === 'integer' || kind === 'number' ? toNumber(kind, text) : text;
}

function toMoment(kind: 'date' | 'datetime', text: string): string {
  return kind === 'date' ? text.slice(0, DAY) : new Date(text).toISOString();
}

function toText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  throw new TypeError(`A database answered with a ${typeof value} in the place of a scalar.`);
}

/** The characters of a day. */
const DAY = 10;

/** A sum may be larger than a number can say: then it is a text. */
function toNumber(kind: 'integer' | 'number', text: string): number | string {
  const number = Number(text);
  return kind === 'number' || Number.isSafeInteger(number) ? number : text;
}
