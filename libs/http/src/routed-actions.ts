import type { OperatorAction } from '@toolloop/core/policy';

/** The actions of operators for which there are routes. */
export const ROUTED_ACTIONS: readonly OperatorAction[] = [
  'explain',
  'killSwitch',
  'policy',
  'replay',
  'runs',
  'sources',
  'undo',
  'usage',
  'audit',
  'viewAs',
];
