import {
  CheckConstraintViolationException,
  ForeignKeyConstraintViolationException,
  NotNullConstraintViolationException,
  OptimisticLockError,
  RowLevelSecurityViolationException,
  UniqueConstraintViolationException,
} from '@mikro-orm/core';
import { StorageUnavailableError } from '@toolloop/protocol';
import { isOfValues, mayPass } from '../database-answers.js';
import { ResourceWriteError } from '../resource-write-error.js';

const REASONS = [
  [UniqueConstraintViolationException, 'unique'],
  [NotNullConstraintViolationException, 'required'],
  [ForeignKeyConstraintViolationException, 'reference'],
  [CheckConstraintViolationException, 'check'],
  [RowLevelSecurityViolationException, 'tenant'],
] as const;

/** PostgreSQL's code for a statement that was cancelled, as by its timeout. */
const CANCELLED = '57014';

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
  const { code, constraint, column } = error as Error & {
    readonly code?: unknown;
    readonly constraint?: string;
    readonly column?: string;
  };
  const reason = reasonOf(error, code);
  return reason
    ? new ResourceWriteError(reason, column ?? constraint ?? '', { cause: error })
    : error;
}

function reasonOf(error: Error, code: unknown): ResourceWriteError['reason'] | undefined {
  if (code === CANCELLED) return 'timeout';
  const [, reason] = REASONS.find(([type]) => error instanceof type) ?? [];
  return reason ?? (isOfValues(code) ? 'check' : undefined);
}
