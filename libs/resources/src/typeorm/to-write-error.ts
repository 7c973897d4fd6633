import { StorageUnavailableError } from '@toolloop/protocol';
import {
  QueryFailedError,
  QueryRunnerAlreadyReleasedError,
  QueryRunnerProviderAlreadyReleasedError,
} from 'typeorm';
import { mayPass, reasonOfValue, subjectIn } from '../database-answers.js';
import { ResourceWriteError } from '../resource-write-error.js';

/**
 * Says a refusal of the database in the gateway's words, and a failure that may pass as one of
 * storage; any other error stays as it is.
 */
export function toWriteError(error: unknown): unknown {
  const driver: DriverError = (
    error instanceof QueryFailedError ? error.driverError : error
  ) as DriverError;
  const isLost = GIVEN_BACK.some((type) => error instanceof type) || mayPass(driver);
  if (isLost)
    return new StorageUnavailableError('The database does not answer for now.', { cause: error });
  if (!(error instanceof QueryFailedError)) return error;
  const reason = reasonOf(driver);
  return reason ? new ResourceWriteError(reason, subjectOf(driver), { cause: error }) : error;
}

/** The parts of an error of pg or mysql2 that tell what was refused. */
interface DriverError {
  readonly code?: string;
  readonly errno?: number;
  readonly message?: string;
  readonly constraint?: string;
  readonly column?: string;
}

/** The codes of PostgreSQL, and the numbers of MariaDB and MySQL. */
const REASONS: ReadonlyMap<string | number, ResourceWriteError['reason']> = new Map<
  string | number,
  ResourceWriteError['reason']
>([
  ['23505', 'unique'],
  ['23502', 'required'],
  ['23503', 'reference'],
  ['23514', 'check'],
  ['42501', 'tenant'],
  ['57014', 'timeout'],
  [1062, 'unique'],
  [1048, 'required'],
  [1364, 'required'],
  [1451, 'reference'],
  [1452, 'reference'],
  [4025, 'check'],
  [3819, 'check'],
  [1205, 'conflict'],
  [1020, 'conflict'],
  [1969, 'timeout'],
  [3024, 'timeout'],
]);

function reasonOf(error: DriverError): ResourceWriteError['reason'] | undefined {
  const { code = '', errno = 0 } = error;
  return REASONS.get(code) ?? REASONS.get(errno) ?? reasonOfValue(error);
}

/**
 * A runner gives its connection back by itself when it is lost between two statements; the runner
 * and the manager each say it with an error of their own.
 */
const GIVEN_BACK = [
  QueryRunnerAlreadyReleasedError,
  QueryRunnerProviderAlreadyReleasedError,
] as const;

function subjectOf({ column, constraint, message }: DriverError): string {
  return column ?? constraint ?? subjectIn(message);
}
