import type { CallHooks } from '../plugin/call-hooks.js';
import { CallFailure } from './call-failure.js';
import type { AuthorisedCall } from './call.js';
import { failedPlugin } from './failed-plugin.js';

/**
 * Asks the plugins about a call that may be made. Nothing to wait for if there are none.
 *
 * @throws {CallFailure} for a call that one of them refuses, or cannot be asked about
 */
export function assertLetIn(call: AuthorisedCall): Promise<void> | undefined {
  const { beforeEffect } = call.hooks;
  return beforeEffect && askAbout(call, beforeEffect);
}

async function askAbout(
  call: AuthorisedCall,
  ask: NonNullable<CallHooks['beforeEffect']>,
): Promise<void> {
  try {
    const refusal = await ask(call);
    if (refusal) throw new CallFailure(refusal, { method: 'not_called' });
  } catch (error) {
    throw failedPlugin(error, UNASKED, 'not_called');
  }
}

const UNASKED = {
  code: 'execution_failed',
  safeMessage: 'The call could not be checked, so it was not made.',
} as const;
