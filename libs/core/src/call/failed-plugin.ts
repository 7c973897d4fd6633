import type { ToolFailure } from '@toolloop/protocol';
import { Logger } from '../findings/logger.js';
import { PluginError } from '../plugin/plugin-error.js';
import { CallFailure, type MethodState } from './call-failure.js';

/**
 * Returns the failure of a call that a plugin could not be asked about, and logs the cause, which
 * the call does not tell. Any other error stays as it is.
 */
export function failedPlugin(error: unknown, failure: ToolFailure, method?: MethodState): unknown {
  if (!(error instanceof PluginError)) return error;
  logger.error(error.message, error.cause);
  return new CallFailure(failure, { cause: error, method });
}

const logger = new Logger('Plugins');
