import type { ApprovalTerms, Decision } from '@toolloop/protocol';
import { Logger } from '../findings/logger.js';
import type { RulingOf } from '../plugin/call-hooks.js';
import { PluginError } from '../plugin/plugin-error.js';
import type { CallRuling, ResultChange } from '../plugin/call-points.js';
import { hadEffect } from '../plugins/sub-runs/sub-run-call.js';
import { cut } from '../plugins/pages/result-pages.js';
import { stricter } from '../policy/rules.js';
import {
  FLAG,
  type Form,
  list,
  NUMBER,
  only,
  optional,
  partly,
  TEXT,
} from '../schema/saved-form.js';
import { answerLost, CallFailure } from './call-failure.js';
import type { AuthorisedCall, Call, ReadCall } from './call.js';
import type { ToolOutcome } from './outcome.js';

const logger = new Logger('Plugins');

const KIND: Form<CallRuling['kind']> = {
  check: (kind, at) => (kind === 'deny' || kind === 'require_approval' ? undefined : at),
};

const TERMS = only<ApprovalTerms>({
  roles: optional(list(TEXT)),
  notRequester: optional(FLAG),
  mayEdit: optional(FLAG),
  mayRemember: optional(FLAG),
  expiresAfterMs: optional(NUMBER),
  remindAfterMs: optional(NUMBER),
  escalation: optional(list(partly({ roles: list(TEXT), afterMs: NUMBER }))),
});

const RULING = only<CallRuling>({ kind: KIND, reason: TEXT, approval: optional(list(TERMS)) });

/** Returns policy's decision on a call, made stricter by the rulings of plugins. */
export function withRulings(call: ReadCall, decision: Decision): Decision {
  const rulings = call.hooks.judge?.(call) ?? [];
  return rulings.map(decisionOf).reduce(stricter, decision);
}

/** A ruling that is none denies the call, as does a plugin that fails. */
function decisionOf({ name, ruling }: RulingOf): Decision {
  const by = { rule: `plugin ${name}`, policyVersion: `plugin ${name}` };
  const mistake = RULING.check(ruling, 'ruling');
  if (mistake === undefined) return { ...ruling, ...by };
  logger.error(`The plugin "${name}" has denied a call, as ${mistake} is not what it must be.`);
  return { kind: 'deny', reason: 'The plugin failed.', ...by };
}

/**
 * Asks the plugins about a call that may be made.
 *
 * @throws {CallFailure} for a call that one of them refuses, or cannot be asked about
 */
export async function assertLetIn(call: AuthorisedCall): Promise<void> {
  try {
    const refusal = await call.hooks.beforeEffect?.(call);
    if (refusal) throw new CallFailure(refusal, { method: 'not_called' });
  } catch (error) {
    throw error instanceof PluginError
      ? new CallFailure(UNASKED, { cause: error, method: 'not_called' })
      : error;
  }
}

const UNASKED = {
  code: 'execution_failed',
  safeMessage: 'The call could not be checked, so it was not made.',
} as const;

/**
 * Returns an outcome as the plugins have it read.
 *
 * @throws {Error} if one of them failed, so that nothing of the result may be read
 */
export async function asRead(call: Call, outcome: ToolOutcome): Promise<ToolOutcome> {
  const { result } = call.hooks;
  if (!result || outcome.isPending) return outcome;
  try {
    const change = await result(call, outcome);
    return change ? withChange(call, outcome, change) : outcome;
  } catch (error) {
    throw isRead(call) && hadEffect(call) && !outcome.record.error ? answerLost(error) : error;
  }
}

/** The entities of a result that was changed are not told: their names would tell of it. */
function withChange(
  call: Call,
  { hinted: _hinted, ...outcome }: ToolOutcome,
  { content, result, isFromOutside }: ResultChange,
): ToolOutcome {
  const { resultBytes } = call.limits ?? call.run.limits;
  const { reads = 'private' } = outcome.labels ?? outcome.tool?.spec.labels ?? {};
  return {
    ...outcome,
    ...(content !== undefined && {
      content: typeof content === 'string' ? cut(content, resultBytes) : content,
    }),
    ...(result !== undefined && { record: { ...outcome.record, result } }),
    ...(isFromOutside && { labels: { returns: 'untrusted', reads } as const }),
  };
}

function isRead(call: Call): call is ReadCall {
  return call.tool !== undefined && call.input !== undefined;
}
