import type { LoggerService } from '@nestjs/common';
import { CallCredentials } from './call-credentials.js';

/** Returns an exception of a call without the credentials that the call received. */
export function discreet(
  thrown: unknown,
  { credentials }: { readonly credentials?: CallCredentials },
): unknown {
  return credentials ? credentials.error(thrown) : thrown;
}

/** A logger whose lines tell no credential that the call was handed. */
export function discreetLogger(
  logger: LoggerService,
  call: { readonly credentials?: CallCredentials },
): LoggerService {
  const shown = (detail: unknown): unknown => call.credentials?.logged(detail) ?? detail;
  return {
    log: (message, ...more: unknown[]) => void logger.log(shown(message), ...more.map(shown)),
    error: (message, ...more: unknown[]) => void logger.error(shown(message), ...more.map(shown)),
    warn: (message, ...more: unknown[]) => void logger.warn(shown(message), ...more.map(shown)),
    debug: (message, ...more: unknown[]) => void logger.debug?.(shown(message), ...more.map(shown)),
    verbose: (message, ...more: unknown[]) =>
      void logger.verbose?.(shown(message), ...more.map(shown)),
    fatal: (message, ...more: unknown[]) => void logger.fatal?.(shown(message), ...more.map(shown)),
  };
}
