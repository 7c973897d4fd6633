import type { LoopRequest, Policy } from '@toolloop/core';
import { principalOf, type User } from './identity/user.js';

const HOUR_MS = 3_600_000;
/** A tool of another's server is allowed by its exact id. */
const CARRIER_TOOL = 'mcp__carrier__track_shipment';

/** The most that a user may do here, and the most that one run may use. */
export const DESK_POLICY: Policy = {
  version: 'desk-9',
  allow: [
    'crm__*',
    'catalog__read',
    'orders__*',
    'carts__*',
    'refunds__*',
    'directives__status',
    'device__scanBarcode',
    'parcels__quotePostage',
    'person__ask',
    'approvals__withdraw',
    'screen__showPage',
    CARRIER_TOOL,
    'customer_*_*',
    'order_*_*',
    'cart_*_*',
  ],
  roles: { manager: { allow: ['catalog__update'] } },
  // A client declares a page in its request, if it has a screen: to show one changes nothing, and
  // no data leaves by it. The carrier's tool only reads, and a tracking number says nothing that
  // its carrier does not know. What either answers stays untrusted.
  vouched: {
    screen__showPage: { effect: 'read_only', reads: 'public', egress: false },
    [CARRIER_TOOL]: { effect: 'read_only', reads: 'public', egress: false },
  },
  // a model asks a manager, who need not be its user
  questions: [{ tools: ['person__ask'], roles: ['manager'] }],
  runBudgets: [
    { tools: ['orders__sendReceipt'], calls: 5, beyond: 'ask' },
    { tools: ['cart_*_checkout'], calls: 3, beyond: 'ask' },
    { tools: ['cart_*_addItem'], sum: { argument: '/quantity', most: 100 } },
  ],
  // Customers write their own names and addresses here, and a mail can carry data out: once a run
  // has read them, it asks before it mails. The stricter levels would ask at every cart too, since
  // a customer who was searched for is no trusted origin; a person who is asked all day says yes
  // unread.
  flow: 'trifecta',
};

/** Policies that decide nothing: an operator rehearses runs with them. */
export const CANDIDATES: Readonly<Record<string, Policy>> = {
  careful: {
    ...DESK_POLICY,
    version: 'desk-9-careful',
    requireApproval: [{ effects: ['state_change', 'external_side_effect'] }],
  },
  readOnly: { ...DESK_POLICY, version: 'desk-9-read-only', effects: ['read_only'] },
};

/**
 * The calls for which support needs a manager. It narrows the desk's policy in the runs of support.
 */
const SUPPORT_POLICY: Policy = {
  version: 'desk-support-7',
  allow: ['*', 'screen__showPage', CARRIER_TOOL],
  requireApproval: [
    {
      tools: ['orders__sendReceipt', 'order_*_cancel', 'refunds__refundOrder'],
      roles: ['manager'],
      notRequester: true,
      expiresAfterMs: HOUR_MS,
      remindAfterMs: HOUR_MS / 4,
      escalation: [{ afterMs: HOUR_MS / 2, roles: ['operator'] }],
      reason: 'A manager looks at what support mails, cancels or refunds.',
    },
    {
      tools: ['cart_*_addItem'],
      arguments: { properties: { quantity: { minimum: 20 } }, required: ['quantity'] },
      roles: ['manager'],
      notRequester: true,
      reason: 'A manager looks at 20 pieces and more.',
    },
  ],
};

/**
 * The actor and the tenant of a run, and what it may do. All come from the guard, never from what a
 * client says.
 */
export type RunTerms = Pick<LoopRequest<unknown, User>, 'actor' | 'tenant' | 'policy'>;

/**
 * Takes the terms of a user's runs: a manager has the desk's policy, and everyone else a narrower
 * one.
 */
export function termsFor(user: User): RunTerms {
  return { ...principalOf(user), ...(user.role !== 'manager' && { policy: SUPPORT_POLICY }) };
}
