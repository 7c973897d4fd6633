import type { ApprovalTerms, Decision } from '@toolloop/protocol';
import { Logger } from '../findings/logger.js';
import type { RulingOf } from '../plugin/call-hooks.js';
import type { CallRuling } from '../plugin/call-points.js';
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
import type { ReadCall } from './call.js';

/** Returns policy's decision on a call, made stricter by the rulings of plugins. */
export function withRulings(call: ReadCall, decision: Decision): Decision {
  const { judge } = call.hooks;
  return judge ? judge(call).map(decisionOf).reduce(stricter, decision) : decision;
}

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

/** A ruling that is none denies the call, as does a plugin that fails. */
function decisionOf({ name, ruling }: RulingOf): Decision {
  const by = { rule: `plugin ${name}`, policyVersion: `plugin ${name}` };
  const mistake = RULING.check(ruling, 'ruling');
  if (mistake === undefined) return { ...ruling, ...by };
  logger.error(`The plugin "${name}" has denied a call, as ${mistake} is not what it must be.`);
  return { kind: 'deny', reason: 'The plugin failed.', ...by };
}
