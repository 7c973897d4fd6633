import { StorageUnavailableError } from '@toolloop/core';

/** What the database, or Node, said of an error. Errors of another realm are errors as well, so nobody asks `instanceof`. */
export interface ErrorSaid {
  /** Such as `ECONNREFUSED` or `28P01`; empty where there is none. */
  readonly code: string;
  readonly message: string;
}

/** SQLSTATE of what passes: the connection is lost or refused, the server stops or starts, it has no room, two transactions were in each other's way. */
const PASSING_STATE = /^(?:08|57P0[1235]|533|40001|40P01)/;
const PASSING_CODE = new Set(['ECONNRESET', 'ECONNREFUSED', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);
/** What pg says of a connection itself. It has no code for these. */
const PASSING_TEXT =
  /^(?:Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|terminating connection)/;

/** The error of a driver as the stores are to know it: what may pass is repeated. Any other stays as it is. */
export function toStorageError(error: unknown): unknown {
  if (StorageUnavailableError.in(error)) return error;
  const { code, message } = fromError(error);
  const mayPass = PASSING_STATE.test(code) || PASSING_CODE.has(code) || PASSING_TEXT.test(message);
  return mayPass ? new StorageUnavailableError('The connection to the database was lost.', { cause: error }) : error;
}

/** Rejects with it. */
export function rejectAsStorage(error: unknown): never {
  throw toStorageError(error);
}

export function fromError(error: unknown): ErrorSaid {
  const { code, message } = (error ?? {}) as Partial<Record<keyof ErrorSaid, unknown>>;
  return { code: typeof code === 'string' ? code : '', message: typeof message === 'string' ? message : String(error) };
}
