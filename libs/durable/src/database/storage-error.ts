import { isStoreAttempt } from '@toolloop/core/internal';
import { StorageUnavailableError } from '@toolloop/protocol';

/**
 * The code and message of an error of the database or of Node. Errors of another realm are errors
 * as well, so `instanceof` is not asked.
 */
export interface ErrorSaid {
  /** Such as `ECONNREFUSED` or `28P01`; empty where there is none. */
  readonly code: string;
  readonly message: string;
}

/**
 * SQLSTATE of what passes: the connection is lost or refused, the server stops or starts, it has no
 * room, two transactions were in each other's way.
 */
const PASSING_STATE = /^(?:08|57P0[1235]|53[0-3]|40001|40P01)/;
/**
 * SQLSTATE of what passes for a statement of ours: it was cancelled or reached a limit of its time,
 * or that of a lock or of its transaction, or the server is no primary any more. A statement of a
 * tool may have limits of its own, and what becomes of it then is the tool's business.
 */
const PASSING_OF_OURS = /^(?:57014|55P03|25006|25P0[234])/;
/**
 * SQLSTATE of a session that does not know a statement any more, knows it already, or writes to a
 * server that is no primary any more.
 */
const OF_SESSION = new Set(['26000', '42P05', '25006']);
/**
 * The message of SQLSTATE 0A000 for a statement whose plan was made before a table changed. The
 * other meanings of the code stay.
 */
const OUTDATED_PLAN = /cached plan must not change result type/;
const PASSING_CODE = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
/** The messages of pg about a connection itself. It has no code for these. */
const PASSING_TEXT =
  /^(?:Connection terminated|Query read timeout|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|terminating connection)/;

/**
 * Tells if another session may do what this one did not, since it is outdated: none of the
 * statement was done. Such a session is given up.
 */
export function isOfSession(error: unknown): boolean {
  const { code, message } = fromError(StorageUnavailableError.in(error)?.cause ?? error);
  return OF_SESSION.has(code) || (code === '0A000' && OUTDATED_PLAN.test(message));
}

/**
 * The error of a driver as the stores are to know it: what may pass is repeated. Any other stays as
 * it is.
 *
 * @param isOurs true for a statement that a store sent, or that begins or ends a transaction
 */
export function toStorageError(error: unknown, isOurs = isStoreAttempt()): unknown {
  if (StorageUnavailableError.in(error)) return error;
  const { code, message } = fromError(error);
  const isPassing =
    PASSING_STATE.test(code) || PASSING_CODE.has(code) || PASSING_TEXT.test(message);
  const mayPass =
    isPassing || (isOurs && PASSING_OF_OURS.test(code)) || (code !== '25006' && isOfSession(error));
  return mayPass
    ? new StorageUnavailableError('The database does not answer for now.', { cause: error })
    : error;
}

export function fromError(error: unknown): ErrorSaid {
  const { code, message } = (error ?? {}) as Partial<Record<keyof ErrorSaid, unknown>>;
  return {
    code: typeof code === 'string' ? code : '',
    message: typeof message === 'string' ? message : String(error),
  };
}
