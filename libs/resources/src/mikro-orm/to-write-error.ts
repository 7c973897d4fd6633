import {
  CheckConstraintViolationException,
  ForeignKeyConstraintViolationException,
  NotNullConstraintViolationException,
  OptimisticLockError,
  RowLevelSecurityViolationException,
  UniqueConstraintViolationException,
} from '@mikro-orm/core';
import { StorageUnavailableError } from '@toolloop/protocol';
import { mayPass, reasonOfValue, subjectIn } from '../database-answers.js';
import { ResourceWriteError } from '../resource-write-error.js';

/**
 * Says a refusal of the database in the gateway's words, and a failure that may pass as one of
 * storage; any other error stays as it is. A query builder throws what the driver did.
 */
export function toWriteError(error: unknown): unknown {
  if (error instanceof OptimisticLockError)
    return new ResourceWriteError('conflict', '', { cause: error });
  if (mayPass(error))
    return new StorageUnavailableError('The database does not answer for now.', { cause: error });
  if (!(error instanceof Error)) return error;
  const reason = reasonOf(error);
  if (!reason) return error;
  const { constraint, column, sqlMessage }: DriverError = error;
  const subject = column ?? constraint ?? subjectIn(sqlMessage);
  return new ResourceWriteError(reason, subject, { cause: error });
}

const REASONS = [
  [UniqueConstraintViolationException, 'unique'],
  [NotNullConstraintViolationException, 'required'],
  [ForeignKeyConstraintViolationException, 'reference'],
  [CheckConstraintViolationException, 'check'],
  [RowLevelSecurityViolationException, 'tenant'],
] as const;

/** PostgreSQL's code for a statement that was cancelled, as by its timeout. */
const CANCELLED = '57014';

/** An error with what its driver says of it, which MikroORM copies from that of the driver. */
interface DriverError extends Error {
  readonly code?: unknown;
  readonly errno?: unknown;
  readonly constraint?: string;
  readonly column?: string;
  /** The words of MariaDB and MySQL, without the statement. */
  readonly sqlMessage?: string;
}

function reasonOf(error: DriverError): ResourceWriteError['reason'] | undefined {
  if (error.code === CANCELLED) return 'timeout';
  const [, reason] = REASONS.find(([type]) => error instanceof type) ?? [];
  return reason ?? reasonOfValue(error);
}
