import type { Policy } from '@toolloop/core';
import type { Role, User } from '../identity/user.js';

/** The most anybody may do here: what the manager may. */
export const DESK_POLICY: Policy = {
  version: 'desk-1',
  allow: ['crm__*', 'catalog__*', 'orders__*', 'carts__*', 'customer_*_*', 'order_*_*', 'cart_*_*'],
};

/**
 * Support reads everything of its tenant, fills and checks out carts and cancels orders; prices are the manager's. What leaves the house, such as
 * a mail, a person approves first.
 */
export const SUPPORT_POLICY: Policy = {
  version: 'desk-support-1',
  allow: DESK_POLICY.allow,
  deny: ['catalog__setPrice'],
  requireApproval: [{ effects: ['external_side_effect'] }],
};

const POLICY_OF_ROLE: Readonly<Record<Role, Policy>> = { manager: DESK_POLICY, support: SUPPORT_POLICY };

/** What a user's runs may do. It narrows the policy of the module and never widens it. */
export function policyOf(user: User): Policy {
  return POLICY_OF_ROLE[user.role];
}
